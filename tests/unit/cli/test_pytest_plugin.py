"""The pytest plugin: what fails a test, what only warns, and a whole session of pytest."""

from __future__ import annotations

import itertools
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import benchorch
from benchorch.cli import pytest_plugin
from benchorch.cli.pytest_plugin import ModelBenchmark
from benchorch.domain.trial import Trial
from support.synthetic_runs import DISAGREES, result, trial, write_run

EAGER = trial()
TEST = """
import torch

def test_ranker(benchmark_model):
    torch.manual_seed(0)
    results = benchmark_model(
        torch.nn.Linear(4, 2), {"input": torch.randn(2, 4)}, ["eager"],
        stopping="fixed", control=False,
        **{"stopping.processes": 1, "stopping.window_s": 0.05, "protocol.pairing": "none",
           "store.root": "store"},
    )
    assert results[0].latency_ms.value > 0
"""


class Options:
    """pytest's own configuration, as far as a benchmark asks it."""

    def __init__(self, **given: object) -> None:
        self.given = {"max_regression": "5%", "strict": False, **given}

    def getoption(self, name: str) -> object:
        return self.given[name.removeprefix("--benchorch-").replace("-", "_")]


def gated(tmp_path: Path, call_ns: float, name: str = "after", **options: Any) -> None:
    """The gate of a session that took so long, against one of 1 ms."""
    before = tmp_path / "runs" / "before"
    if not before.exists():
        write_run(before, (EAGER, result(EAGER)))
    found = result(EAGER, call_ns, seed=7, started_at="2026-01-02T00:00:00.000+00:00")
    after = write_run(tmp_path / "runs" / name, (EAGER, found))
    config: Any = Options(**options)
    one = ModelBenchmark(config=config, name="test_x", folder=tmp_path / "runs", told=[])
    one._gate(str(tmp_path / "runs"), after)


def later(tmp_path: Path, day: int, *more: Trial, **fields: Any) -> None:
    """The gate of a later session against all before it."""
    at = f"2026-02-0{day}T00:00:00.000+00:00"
    found = [(one, result(one, seed=7, started_at=at, **fields)) for one in (EAGER, *more)]
    after = write_run(tmp_path / "runs" / f"day-{day}", *found)
    config: Any = Options()
    one = ModelBenchmark(config=config, name="test_x", folder=tmp_path / "runs", told=[])
    one._gate(str(tmp_path / "runs"), after)


@pytest.fixture(autouse=True)
def _own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_slower_model_fails_the_test_with_the_gates_table(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="REGRESSION: worse than its baseline"):
        gated(tmp_path, 1.2e6)


def test_a_regression_fails_until_somebody_accepts_it(tmp_path: Path) -> None:
    gated(tmp_path, 1.0e6)
    for day in (1, 2):
        with pytest.raises(pytest.fail.Exception, match="REGRESSION") as failure:
            later(tmp_path, day, call_ns=1.5e6)
    Path(str(failure.value).rpartition(" rm ")[2]).unlink()
    with pytest.warns(UserWarning, match="unclear"):  # two sessions do not show how they differ
        later(tmp_path, 3, call_ns=1.5e6)


def test_a_trial_that_newly_disagrees_fails_again(tmp_path: Path) -> None:
    gated(tmp_path, 1.0e6)
    for day in (1, 2):
        with pytest.raises(pytest.fail.Exception, match="is off by"):
            later(tmp_path, day, parity=DISAGREES)


def test_a_trial_that_is_missing_fails_again(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="first"):
        later(tmp_path, 1, trial("fast"))
    for day in (2, 3):
        with pytest.raises(pytest.fail.Exception, match="missing: fast"):
            later(tmp_path, day)


def test_the_line_that_accepts_a_session_is_one_for_a_shell(tmp_path: Path) -> None:
    directory = tmp_path / "of mine"
    directory.mkdir()
    line = pytest_plugin._set_aside(directory, "REGRESSION").rpartition("accept it: ")[2]
    assert shlex.split(line) == ["rm", str(directory / "gate_failed.txt")]


def test_other_packages_fail_once_and_begin_a_new_baseline(tmp_path: Path) -> None:
    gated(tmp_path, 1.0e6)
    newer = {"packages": {"torch": "9"}}
    with pytest.raises(pytest.fail.Exception, match="REFUSED"):
        later(tmp_path, 1, environment=newer)
    later(tmp_path, 2, environment=newer)


@pytest.mark.filterwarnings("error")
def test_the_same_speed_passes(tmp_path: Path) -> None:
    gated(tmp_path, 1.0e6)


def test_unclear_evidence_warns_and_fails_where_the_gate_is_strict(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="neither shown nor ruled out"):
        gated(tmp_path, 1.05e6)
    with pytest.raises(pytest.fail.Exception):
        gated(tmp_path, 1.05e6, "again", strict=True)


def test_a_first_session_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    (tmp_path / "runs" / "before").mkdir(parents=True)
    with pytest.warns(UserWarning, match="None of 1 runs is from before the candidate"):
        gated(tmp_path, 1.2e6)


def test_each_call_of_a_test_is_compared_with_its_own_earlier_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = itertools.count(1)

    def benchmark(call_ns: float, *_: object, directory: Path, **__: object) -> str:
        at = f"2026-01-{next(days):02}T00:00:00.000+00:00"
        write_run(directory, (EAGER, result(EAGER, call_ns, seed=7, started_at=at)))
        return "a table"

    monkeypatch.setattr(benchorch, "benchmark", benchmark)

    def session(first_ns: float, second_ns: float) -> None:
        folder, config = tmp_path / "tests-test_x", Options(gate="")
        measure = ModelBenchmark(config=config, name="test_x", folder=folder, told=[])  # type: ignore[arg-type]
        measure(first_ns)
        measure(second_ns)

    with pytest.warns(UserWarning, match="first"):
        session(1e6, 3e6)
    session(1e6, 3e6)
    with pytest.raises(pytest.fail.Exception, match="REGRESSION"):
        session(1e6, 4e6)
    assert [len(list(one.iterdir())) for one in sorted(tmp_path.glob("tests-*"))] == [3, 3]


def requested(name: str = f"tests/test_it.py::test_x[{'a' * 400}]", **options: object) -> Any:
    config = SimpleNamespace(
        getoption=Options(**options).getoption,
        stash=pytest.Stash(),
        invocation_params=SimpleNamespace(dir=Path("/started/here")),
    )
    return SimpleNamespace(config=config, node=SimpleNamespace(nodeid=name))


def test_a_limit_that_is_no_share_ends_it_before_anything_is_measured() -> None:
    request = requested(gate="", max_regression="five", runs="runs")
    with pytest.raises(pytest.UsageError, match="'five' is not a share"):
        pytest_plugin.benchmark_model.__wrapped__(request)


def test_a_tests_file_that_the_gate_took_for_its_run_ends_it_with_the_right_line() -> None:
    request = requested(gate="test_it.py", max_regression="5%", runs="runs")
    with pytest.raises(pytest.UsageError, match=r"pytest test_it\.py --benchorch-gate$"):
        pytest_plugin.benchmark_model.__wrapped__(request)


def test_a_long_name_of_a_test_has_a_folder_that_can_be_made(tmp_path: Path) -> None:
    found = pytest_plugin.benchmark_model.__wrapped__(requested(gate=None, runs=str(tmp_path)))
    found.folder.mkdir()
    assert found.folder.name.startswith("tests-test_it.py-test_x-aaa")


def test_a_test_that_changes_the_folder_keeps_its_history() -> None:
    found = pytest_plugin.benchmark_model.__wrapped__(
        requested("test_it.py::test_x", gate=None, runs="runs")
    )
    assert found.folder == Path("/started/here/runs/test_it.py-test_x")


def folder_of(case: str) -> str:
    request = requested(f"tests/test_it.py::test_x{case}", gate=None, runs="runs")
    return str(pytest_plugin.benchmark_model.__wrapped__(request).folder.name)


def test_cases_of_one_test_have_folders_of_their_own() -> None:
    cases = ["", "[8]", "[-8]", "[8-]", "[<8]", "[>8]", "[a b]", "[a-b]", "[a/b]"]
    assert len({folder_of(case) for case in cases}) == len(cases)
    plain = ["", "-8", "--8", "-a-b"]
    assert [folder_of(case) for case in ("", "[8]", "[-8]", "[a-b]")] == [
        f"tests-test_it.py-test_x{end}" for end in plain
    ]


def test_it_is_light_to_import() -> None:
    code = f"import sys, {pytest_plugin.__name__}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"torch", "numpy", "hydra", "click", "mlflow", "ray", "benchorch.errors"}


@pytest.mark.slow
def test_a_session_measures_tells_and_compares_with_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    words = ["-p", "no:cacheprovider", "--benchorch-gate"]
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words, "--benchorch-max-regression", "5000%"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1 passed" in done.stdout
        assert "test_it.py::test_ranker" in done.stdout.partition("= benchorch =")[2]
    assert len(list((tmp_path / "runs" / "pytest").glob("*/*/plan.json"))) == 2
