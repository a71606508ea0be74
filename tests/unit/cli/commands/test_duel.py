"""Requests of `duel`, and of `gate --against`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchorch.cli.commands import duel, duel_report, gate
from benchorch.cli.commands.duel_report import DuelReport
from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError
from benchorch.journal.run_directory import write_plan
from benchorch.results.compare.duels import DuelTerms
from benchorch.run import expand
from benchorch.run.duel.checkout import Checkout
from benchorch.run.duel.contender import CodeVersion
from benchorch.run.duel.duel import Bout, Duel
from benchorch.run.duel.messages import Origin
from support.synthetic_runs import result, trial, write_run

EAGER = trial()
OF_EAGER = result(EAGER, 1e6)
MLP = ("model=mlp", "conversion=eager")
TERMS = DuelTerms(limit_ratio=0.02, delta_ratio=0.01, trials=1)
BOUTS = [Bout(trial=EAGER, name="eager")]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")
    Path("net.py").write_text("LAYERS = 1\n")
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "one")):
        subprocess.run([*git, *words], check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "needs --against REV, or --env A B"),
        (("--against", "nowhere"), "no such commit"),
        (("--against", "HEAD", "nonsense"), "'nonsense': is not an override"),
        (("--against", "HEAD", "--cfg", "job"), "does not take --cfg"),
        (("--against", "HEAD", "resume=x"), "does not take resume=x"),
        (("--env", "nowhere", "nowhere"), "neither an environment's folder nor an interpreter"),
        (("--against", "HEAD", "--directory", "."), "a duel has a folder of its own"),
        (("--against", "HEAD", "model=mpl"), "mlp"),
        (("--against", "HEAD", "scenario=peak_rate"), "each side rates of its own"),
        (("--against", "HEAD", "scenario=[server,throughput_latency]"), "scenario.rate_per_s=RATE"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_runs(
    words: tuple[str, ...], problem: str, repository: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        duel.run.reply([*words, *([] if "model=mpl" in words else MLP)])
    assert problem in " ".join(refused.value.problems)
    assert not (repository / "runs").exists()


@pytest.mark.parametrize(
    "words",
    [("--minutes", "0"), ("--pairs", "4"), ("--pairs", "x"), ("--max-regression", "2"), ("--env",)],
)
def test_a_wrong_option_is_refused_with_a_line_to_type(words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=f"benchorch duel: .*{words[0]}") as refused:
        duel.run.reply(["--against", "HEAD", *words])
    assert refused.value.next.startswith("benchorch duel --")


@pytest.mark.parametrize("words", [["--against", "HEAD"], ["--against=HEAD"]], ids=" ".join)
def test_a_gate_against_a_revision_is_a_duel(words: list[str], monkeypatch) -> None:
    seen: list[duel._DuelOptions] = []
    monkeypatch.setattr(duel, "_fought", lambda words, options, terminal: seen.append(options))
    gate.run.reply([*words, "--max-regression", "3%"])
    (options,) = seen
    assert (options.against, options.max_regression) == ("HEAD", 0.03)


def test_another_machine_is_refused(repository: Path) -> None:
    with pytest.raises(ConfigError, match="this machine"):
        duel.run.reply(["--against", "HEAD", "model=mlp", "hardware=g5", "executor=ray"])


def test_a_requested_conversion_that_cannot_run_is_refused_or_allowed(
    repository: Path, monkeypatch
) -> None:
    monkeypatch.setattr(expand, "is_installed", lambda name: not name.startswith("onnxruntime"))
    words = ["--against", "HEAD", "model=mlp", "conversion=[eager,onnxruntime]"]
    with pytest.raises(ConfigError, match="onnxruntime") as refused:
        duel.run.reply(words)
    (problem,) = refused.value.problems
    assert problem.correction is not None
    assert [*problem.correction.added] == ["--allow-skips"]
    assert not (repository / "runs").exists()
    monkeypatch.setattr(duel, "fight", lambda *_, **__: Duel(terms=TERMS, bouts=BOUTS))
    reply = duel.run.reply([*words, "--allow-skips"])
    (skip,) = reply.data["skips"]
    assert "needs onnxruntime" in skip
    assert f"skipped {skip}" in " ".join(reply.text.split())


def test_an_environment_is_its_folder_or_its_interpreter(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    assert duel._python(str(tmp_path)) == str(python)
    assert duel._python(str(python)) == str(python)


def test_a_module_of_this_folder_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    root, top = tmp_path / "here", tmp_path / "private" / "here"
    checkout = Checkout(root=root, top=top, folder=top, commit="c" * 40, submodules=False)

    def origins(file: Path) -> tuple[Origin, Origin]:
        old = Origin(
            version=1,
            benchorch="1",
            benchorch_file="b",
            python="3",
            executable="p",
            commit="",
            modules={"net": str(file)},
        )
        return old, old

    duel._check(origins(top / "net.py"), checkout)
    duel._check(origins(tmp_path / "elsewhere.py"), checkout)
    with pytest.raises(ConfigError, match="both sides would run the same code"):
        duel._check(origins(root / "net.py"), checkout)


@pytest.mark.parametrize("place", ["net.py", "lib/../net.py"])
def test_a_factory_of_this_folder_by_its_absolute_path_is_refused(
    place: str, repository: Path
) -> None:
    (repository / "lib").mkdir()
    Path("net.py").write_text("import torch\n\ndef make():\n    return torch.nn.Linear(4, 4)\n")
    inputs = "model.inputs={input: {shape: [batch_size, 4], generator: normal}}"
    factory = f"model.factory={repository / place}:make"
    with pytest.raises(ConfigError, match="both sides would run the same code") as refused:
        duel.run.reply(["--against", "HEAD", "model=factory", factory, inputs, "conversion=eager"])
    assert "from the current folder: net.py:make" in " ".join(refused.value.problems)


def test_modules_come_from_the_checkout_where_this_folder_is_searched(
    tmp_path: Path, monkeypatch
) -> None:
    root, top = tmp_path / "here", tmp_path / "private" / "here"
    for place in (root / "lib", top / "lib", top / "src" / "package", root / ".venv"):
        place.mkdir(parents=True)
    (top / "src" / "package" / "__init__.py").touch()
    (top / "net.py").touch()
    monkeypatch.setattr(sys, "path", [str(root / ".venv"), str(root / "lib"), "/usr/lib"])
    checkout = Checkout(root=root, top=top, folder=top, commit="c", submodules=False)
    assert duel._search(checkout, old=True) == (top / "lib", top / "src")
    assert duel._search(checkout, old=False) == (root / "lib", root / "src")
    assert duel._modules(checkout) == ("net", "package")


def test_each_side_has_its_table_and_a_next_command_of_its_own(tmp_path: Path) -> None:
    sides = tuple(
        CodeVersion(
            name=name,
            what=name,
            python="python",
            folder=tmp_path,
            search=(),
            directory=write_run(tmp_path / name, (EAGER, OF_EAGER)),
        )
        for name in ("old", "new")
    )
    report = DuelReport(
        Duel(terms=TERMS, bouts=BOUTS),
        (sides[0], sides[1]),
        tmp_path,
        None,
    )
    assert duel_report.text(report).splitlines()[-2:] == [
        f"next  python -m benchorch report {tmp_path / name}" for name in ("old", "new")
    ]
    duel._write_table(tmp_path / "old")
    assert "| eager |" in (tmp_path / "old" / "table.md").read_text()
    (tmp_path / "empty").mkdir()
    plan = Plan(plan_id="p", name="n", trials=(EAGER,), skips=(), session={})
    write_plan(tmp_path / "empty", plan)
    duel._write_table(tmp_path / "empty")
    assert not (tmp_path / "empty" / "table.md").exists()
