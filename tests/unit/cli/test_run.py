"""How a command line ends: however its invocation does, and by which signal."""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchorch.cli import run
from benchorch.cli.arguments import parse
from benchorch.cli.run import _delivered, _to_its_end, benchmark, run_again
from benchorch.cli.terminal import Terminal
from benchorch.errors import ConfigError, ExecutorError, RecordError
from benchorch.journal import run_directory
from benchorch.journal.registry import remember_plan
from support.synthetic_runs import result, trial, write_run


class Invocation:
    """Notes how it was ended."""

    directory = Path("no-such-run")

    def __init__(self):
        self.ended = []

    def interrupt(self):
        self.ended.append("interrupted")

    def cut_short(self):
        self.ended.append("cut short")

    def abandon(self):
        self.ended.append("abandoned")

    def close(self, *, complete):
        self.ended.append(complete)
        return 0


def ended_by(work):
    invocation = Invocation()
    return _to_its_end(work, lambda: invocation), invocation.ended


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGTERM), 143),
        (lambda: sys.exit(signal.SIGTERM), 143),  # as Ray's handler does
        (lambda: os.kill(os.getpid(), signal.SIGINT), 130),
    ],
)
def test_a_signal_keeps_what_was_measured(work, code):
    before = signal.getsignal(signal.SIGTERM)
    assert ended_by(work) == (code, ["interrupted"])
    assert signal.getsignal(signal.SIGTERM) is before


def test_without_a_signal_the_invocation_is_closed():
    assert ended_by(lambda: None) == (0, [True])


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (RecordError("the disk is full"), "abandoned"),
        (ExecutorError("no cluster responds"), "cut short"),
        (ConfigError(["the files are too large to ship"]), "cut short"),
    ],
)
def test_an_invocation_that_an_error_ends_is_ended(error, ended):
    def work():
        raise error

    invocation = Invocation()
    with pytest.raises(type(error)):
        _to_its_end(work, lambda: invocation)
    assert invocation.ended == [ended]


def test_a_second_signal_interrupts_the_end_and_does_not_kill():
    class Recording(Invocation):
        def interrupt(self):
            with pytest.raises(KeyboardInterrupt):  # as the wait for a tracker does
                os.kill(os.getpid(), signal.SIGTERM)
            super().interrupt()

    invocation = Recording()
    code = _to_its_end(lambda: os.kill(os.getpid(), signal.SIGTERM), lambda: invocation)
    assert (code, invocation.ended) == (143, ["interrupted"])


def stored(directory, *pairs):
    return SimpleNamespace(directory=write_run(directory, *pairs), plan="a plan")


def test_a_report_of_no_known_kind_is_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(output=Path("result.xlsx"))
    with pytest.raises(ConfigError, match=r"a report is \.html"):
        benchmark(parse(["model=mlp"]), terminal)
    assert not list(tmp_path.iterdir())
    directory = stored(tmp_path / "run", (trial(), None)).directory
    before = sorted(directory.iterdir())
    with pytest.raises(ConfigError, match=r"a report is \.html"):
        run_again(directory, terminal, failed=False, only=(), exit_first=False)
    assert sorted(directory.iterdir()) == before


def test_a_run_that_is_interrupted_before_its_first_result_keeps_its_exit_code(tmp_path, capsys):
    ended = stored(tmp_path / "run", (trial(), None))
    assert _delivered(130, ended, Terminal(output=tmp_path / "table.md")) == 130
    assert "no trial of this run has a result" in capsys.readouterr().err
    assert _delivered(130, ended, Terminal(as_json=True)) == 130
    told = json.loads(capsys.readouterr().out)
    assert (told["code"], told["exit_code"]) == ("failed", 130)
    assert told["directory"] == str(ended.directory)


def test_a_file_that_cannot_be_written_fails_a_run_that_is_kept(tmp_path, capsys):
    ended = stored(tmp_path / "run", (trial(), result(trial(), 1e6)))
    (tmp_path / "taken.md").mkdir()
    assert _delivered(0, ended, Terminal(output=tmp_path / "taken.md")) == 1
    assert f"The run is in {ended.directory}" in " ".join(capsys.readouterr().err.split())


def test_a_file_of_a_resumed_run_is_written_where_the_command_was_typed(tmp_path, monkeypatch):
    directory = stored(tmp_path / "run", (trial(), result(trial(), 1e6))).directory
    planned_in = tmp_path / "project"
    planned_in.mkdir()
    plan = replace(run_directory.read_plan(directory), session={"cwd": str(planned_in)})
    run_directory.write_plan(directory, plan)
    remember_plan(plan.plan_id, directory)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "_run_plan", lambda invocation, plan: 0)
    terminal = Terminal(output=Path("table.md"))
    assert run_again(directory, terminal, failed=False, only=("eager",), exit_first=False) == 0
    assert Path.cwd() == planned_in
    assert (tmp_path / "table.md").is_file()
    assert not list(planned_in.iterdir())
