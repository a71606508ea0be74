"""The Python API as a user meets it: live modules, a REPL, a factory in a file, Ctrl-C."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import benchorch
from benchorch.errors import ConfigError
from support.waiting import children_of, is_there

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "python-api.md"
FAST = {
    **{"stopping": "fixed", "stopping.processes": 2, "stopping.calls": 5},
    **{"stopping.window_s": 0.05, "protocol.canary_tolerance_ratio": None},
    **{"protocol.pair_window_s": 0.05, "profiler": "none", "recorder": "none"},
}
ONCE = {**FAST, "stopping.processes": 1, "protocol.pairing": "none", "executor": "inline"}
SLOW = """
import benchorch, torch
class Slow(torch.nn.Module):
    def forward(self, x):
        return x + 1
benchorch.benchmark(Slow(), torch.ones(2), "eager", recorder="none", profiler="none",
                    directory="out", stopping="fixed",
                    **{"stopping.processes": 50, "stopping.window_s": 5})
"""


def python(place):
    """A program that Python reads from its standard input: it has no file."""
    return subprocess.Popen(
        [sys.executable, "-"],
        cwd=place.path,
        env=place.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_module_of_a_class_that_nobody_can_import_is_benchmarked(here, capsys):
    class Local(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(16, 16)

        def forward(self, x, scale):
            return {"y": self.linear(x) * scale, "z": scale * 2}

    inputs = (torch.randn(4, 16), torch.rand(4, 1))
    once = {**ONCE, "executor": "process"}
    results = benchorch.benchmark(
        Local(), inputs, ["eager", "bf16"], quiet=True, directory="out", **once
    )

    assert capsys.readouterr().out == ""
    assert {row.conversion for row in results} == {"eager", "bf16"}
    for row in results:
        assert row.failure is None
        assert row.parity.passed
        assert row.latency_ms.value > 0
        assert row.latency_ms.n == 1
        assert row.workload == "batch_size=4"
        assert (row.directory / "config.yaml").is_file()
    assert results.best is not None
    assert "exported graph run by PyTorch" in results.table()
    assert results.directory == Path("out")
    left = {path.name for path in results.directory.iterdir()}
    assert {"plan.json", "results.jsonl", "table.md", "trials", "model"} <= left
    assert here.run("report", "out").stdout
    with pytest.raises(ConfigError, match="holds a run already"):
        benchorch.benchmark(Local(), inputs, directory="out", **FAST)


def test_a_factory_in_a_file_runs_as_its_own_code(here):
    (here.path / "parts").mkdir()
    (here.path / "parts" / "sibling.py").write_text("WIDTH = 8\n")
    (here.path / "parts" / "json.py").write_text(
        "import torch\nfrom sibling import WIDTH\n"
        "class Branching(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x * WIDTH if x.sum() > 0 else x\n"
        "def make():\n    return Branching()\n"
    )
    results = benchorch.benchmark(
        "parts/json.py:make", {"x": torch.ones(2, 3)}, "eager", quiet=True, **ONCE
    )
    assert [row.failure for row in results] == [None]
    assert "exported" not in results.table()


@pytest.mark.slow
def test_a_named_model_takes_its_own_inputs_or_given_ones(here):
    own = benchorch.benchmark("mlp", None, "eager", quiet=True, workload={"batch_size": 2}, **FAST)
    given = {"input": torch.ones(3, 256)}
    mine = benchorch.benchmark("mlp", given, "eager", quiet=True, **FAST)
    assert [rows[0].workload for rows in (own, mine)] == ["batch_size=2", "batch_size=3"]
    assert [rows[0].failure for rows in (own, mine)] == [None, None]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_page_works_as_printed_from_a_program_without_a_file(place):
    code = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    said, complained = python(place).communicate(code[1], timeout=280)
    assert "Traceback" not in complained
    assert said.count("same model?") == 2  # the report's table, and its own
    assert (place.path / "latency.svg").read_text().startswith("<svg")
    runs = list(place.path.glob("runs/*/*/plan.json"))
    assert len(runs) == 1
    assert json.loads(runs[0].read_text())["name"] == "Net"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_an_interrupt_ends_every_process_and_is_an_interrupt(place):
    running = python(place)
    running.stdin.write(SLOW)
    running.stdin.close()
    running.stdin = None
    deadline = time.monotonic() + 300
    while not children_of(running.pid):
        assert time.monotonic() < deadline, "no trial began"
        time.sleep(0.1)
    time.sleep(2)
    mine = children_of(running.pid)
    running.send_signal(signal.SIGINT)
    said, complained = running.communicate(timeout=400)
    assert mine
    assert not [pid for pid in mine if is_there(pid)]
    assert running.returncode != 0
    assert "KeyboardInterrupt" in complained
    assert "resume=out" in said


def forest(x, y):
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), RandomForestClassifier(3)).fit(x, y)


def xgboost_classifier(x, y):
    made = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    return made.XGBClassifier(n_estimators=3, max_depth=2).fit(x, y)


def lightgbm_regressor(x, y):
    made = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    return made.LGBMRegressor(n_estimators=3, verbose=-1).fit(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("fit", [forest, xgboost_classifier, lightgbm_regressor])
def test_an_estimator_and_its_onnx_graph_are_measured_and_agree(fit, here):
    for package in ("sklearn", "skl2onnx"):
        pytest.importorskip(package, reason=f"no {package}: benchorch[estimators]")
    x = torch.rand(100, 4, generator=torch.Generator().manual_seed(0)).numpy()
    fitted = fit(x, (x[:, 0] > 0.5).astype("int64"))
    results = benchorch.benchmark(fitted, x[:4], ["eager", "onnxruntime"], quiet=True, **ONCE)
    assert {row.conversion for row in results} == {"eager", "onnxruntime"}
    assert all(row.failure is None and row.parity.passed for row in results)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario",
    [
        {"scenario": "server", "scenario.rate_per_s": 5.0, "scenario.duration_s": 2},
        {"scenario": "peak_rate", "scenario.target_ms": 400, "scenario.budget_s": 4}
        | {"scenario.capacity_s": 0.3, "scenario.duration_s": 2},
    ],
    ids=["server", "peak_rate"],
)
def test_prompts_that_arrive_have_their_tokens_timed(scenario, here):
    sizes = {"workload.prompt_tokens": 4, "workload.new_tokens": 3}
    load = {**scenario, "scenario.generate": True, "scenario.min_queries": 0}
    (row,) = benchorch.benchmark(
        "gpt2_tiny", None, "eager", quiet=True, **{**ONCE, **load, **sizes}
    )
    assert row.failure is None
    assert row.parity.passed
    (process,) = row.result.valid
    queries = len(process.observations.durations_ns)
    assert queries
    assert process.observations.tokens_per_call == 3
    assert len(process.observations.token_ns) == 3 * queries


@pytest.mark.slow
def test_tokens_may_be_drawn_while_parity_stays_greedy(here):
    sizes = {"workload.prompt_tokens": 4, "workload.new_tokens": 3, "scenario": "generate"}
    drawn = {"scenario.temperature": 0.8, "scenario.top_k": 5, "scenario.seed": 3}
    (row,) = benchorch.benchmark(
        "gpt2_tiny", None, "eager", quiet=True, **{**ONCE, **sizes, **drawn}
    )
    assert row.parity.passed
    assert row.metrics["decode_tokens_per_s/mean"].value > 0
