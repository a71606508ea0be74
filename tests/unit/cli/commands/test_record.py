"""``benchorch record``: what a person is told."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchorch.cli import corrections
from benchorch.cli.commands import record
from benchorch.domain.trial import ConfigNode, Plan
from benchorch.errors import ConfigError
from benchorch.files import write_json
from benchorch.journal import run_directory
from benchorch.journal.registry import remember_plan
from benchorch.run import sidecar
from benchorch.run.record import end_on_stdin


def directory_of(path: Path, tracking: ConfigNode) -> Path:
    plan = Plan(plan_id="p", name="n", trials=(), skips=(), session={"tracking": tracking})
    path.mkdir(exist_ok=True)
    run_directory.write_plan(path, plan)
    return path


NONE = {"_target_": "benchorch.recorders.none.Nowhere"}
AWAY = {"_target_": "benchorch.recorders.mlflow.Mlflow", "uri": "http://127.0.0.1:9"}


def test_a_directory_without_results_is_a_wrong_request(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither a run's directory"):
        record.run.reply([str(tmp_path / "nothing")])


def test_no_directory_at_all_is_a_wrong_request() -> None:
    with pytest.raises(ConfigError, match="missing argument 'RUN'"):
        record.run.reply([])


def test_a_run_without_a_tracker_says_how_to_name_one(tmp_path: Path) -> None:
    words = [str(directory_of(tmp_path, NONE))]
    with pytest.raises(ConfigError, match="no tracker: name one with --uri") as error:
        record.run.reply(words)
    line = corrections.corrected(["record", *words], error.value.problems)
    assert line == f"benchorch record {words[0]} --uri sqlite:///mlflow.db"


def test_a_wrong_uri_is_a_wrong_request(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="http://localhost:5000"):
        record.run.reply([str(directory_of(tmp_path, NONE)), "--uri", "localhost:5000"])


def test_an_unreachable_tracker_names_the_command_that_brings_the_rest(tmp_path: Path) -> None:
    path = directory_of(tmp_path, AWAY)
    remember_plan("p", path)
    reply = record.run.reply([str(path)])
    assert reply.exit_code == 1
    assert "http://127.0.0.1:9 did not record it: Connection refused" in reply.text
    assert f"python -m benchorch record {path}" in reply.text


def test_a_database_is_found_again_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = {"_target_": record.MLFLOW, "uri": "sqlite:///mlflow.db"}
    path = directory_of(tmp_path / "run", node)
    noted = f"sqlite:///{tmp_path}/mlflow.db"
    write_json(path / "tracking.json", {"uri": noted, "experiment": "benchorch"})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    recorder = record.recorder_of(path, run_directory.read_plan(path), None)
    assert recorder.address["uri"] == noted


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (b'{"complete": true}\n', True),
        (b'{"complete": false}\n', False),
        (b"what?\n", False),
        (b"", False),
    ],
)
def test_the_end_of_a_run_is_heard_on_stdin(said: bytes, heard: bool) -> None:
    code = "import sys; from benchorch.run.record import end_on_stdin as w; sys.exit(w(9) is True)"
    child = subprocess.run([sys.executable, "-c", code], input=said, check=False)
    assert child.returncode == int(heard)


def test_silence_on_stdin_means_that_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    kept = os.dup(0)
    try:
        os.dup2(reader, 0)
        assert end_on_stdin(0.01) is None
    finally:
        os.dup2(kept, 0)
        for descriptor in (reader, writer, kept):
            os.close(descriptor)


def test_following_quietly_answers_nothing_when_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(sidecar.signal, "signal", lambda *_: None)
    reply = record.run.reply([str(directory_of(tmp_path, NONE)), "--follow"])
    assert (reply.text, reply.exit_code) == ("", 0)
