"""Agents, with and without a shared file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.agent import Agent, AgentSetup
from benchorch.executors.scheduling.file_transfer import FolderContent, ShippedFiles
from benchorch.interfaces.executor import Emit

TRIAL = Trial(trial_id="t", labels={}, spec={})


@pytest.fixture(autouse=True)
def place() -> Iterator[None]:
    """Agents change the working directory; tests restore it."""
    here = Path.cwd()
    yield
    os.chdir(here)


def writing(directory: Path) -> object:
    def work(trial: Trial, *, attempt: int, isolated: bool, emit: Emit) -> TrialResult:
        emit(Event(trial_id=trial.trial_id, stage="measure", message=Path("zoo.py").read_text()))
        folder = directory / "trials" / trial.trial_id
        folder.mkdir(parents=True)
        (folder / "log.txt").write_text("what was logged")
        return TrialResult(trial_id=trial.trial_id, labels={}, outcome=Outcome.OK)

    return work


@pytest.mark.parametrize("seen", [True, False])
def test_files_are_sent_back_only_without_a_shared_run_directory(
    tmp_path: Path, seen: bool
) -> None:
    run, home = tmp_path / "run", tmp_path / "home"
    if seen:
        run.mkdir()
        home.mkdir()
        (run / "probe").touch()
        (home / "zoo.py").write_text("x = 1")
    files = {(home / "zoo.py").as_posix().lstrip("/"): b"x = 1"}
    shipped = ShippedFiles(
        directory=run, probe="probe", working_directory=home, content=FolderContent(files=files)
    )
    agent = Agent(writing(run), AgentSetup(shipped=shipped))  # type: ignore[arg-type]
    report = agent.run(TRIAL, 1)
    assert report.files == (None if seen else FolderContent(files={"log.txt": b"what was logged"}))
    assert [event.message for event in report.events] == ["x = 1"]


def test_without_shipped_files_nothing_is_sent_back(tmp_path: Path) -> None:
    (tmp_path / "zoo.py").write_text("")
    os.chdir(tmp_path)
    assert Agent(writing(tmp_path), AgentSetup()).run(TRIAL, 1).files is None  # type: ignore[arg-type]
