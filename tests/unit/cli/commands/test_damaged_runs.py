"""Commands about a damaged run: a sentence and an exit code, never a traceback."""

from pathlib import Path

import pytest

from benchorch.cli import main
from benchorch.errors import ConfigError
from benchorch.journal import run_directory
from support.synthetic_runs import result, trial, write_run

EAGER = trial()
FAST = trial("fast", baseline=EAGER)

DAMAGE = {
    "results.jsonl": [b"\0" * 50, b"[" * 100_000, b"{}", b'{"trial_id": {}}', b"\xff"],
    "plan.json": [b"[" * 100_000, b'{"trials": "x"}', b"", b"\xff", b"{}"],
    "driver.json": [b"[" * 100_000, b"garbage", b'{"expected_end": "x"}'],
    "tracking.json": [b"[]", b"garbage"],
    "recorded.jsonl": [b"garbage", b"{}", b"[1]"],
}
CASES = [(name, content) for name, contents in DAMAGE.items() for content in contents]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return write_run(
        tmp_path / "run", (EAGER, result(EAGER)), (FAST, result(FAST, 5e5, baseline_ns=1e6))
    )


def _ended(command: list[str]) -> int | str:
    """The exit code, or the sentence of the error that `main` prints."""
    try:
        return main.run(command)
    except ConfigError as error:
        return str(error)


@pytest.mark.parametrize(("name", "content"), CASES)
def test_every_command_ends_with_a_sentence(run: Path, name: str, content: bytes) -> None:
    appended = (run / name).read_bytes() if name == run_directory.RESULTS else b""
    (run / name).write_bytes(appended + content + b"\n")
    for command in (["status"], ["report"], ["compare", str(run)], ["record"], ["logs"]):
        told = _ended([command[0], str(run), *command[1:]])
        assert told in (0, 1, 2) or str(run) in str(told)
    if name == run_directory.RESULTS:
        with pytest.raises(ConfigError, match=r"line 3 is damaged"):
            main.run(["report", str(run)])


def test_status_marks_a_damaged_line_and_counts_its_trial_as_left(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / run_directory.RESULTS
    path.write_bytes(path.read_bytes().replace(b'"delta_ratio":0.01', b'"delta_ratio":0.05', 1))
    assert main.run(["status", str(run)]) == 0
    told = capsys.readouterr().out
    assert "1 of 2 trials done" in told
    assert "line 1 is damaged: its digest differs" in told
