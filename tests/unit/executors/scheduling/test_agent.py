"""Agents, with and without a shared file system."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchorch.domain.result import Outcome, TrialResult, UploadedFile
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.errors import StoreError
from benchorch.executors.scheduling.agent import Agent, AgentSetup
from benchorch.executors.scheduling.file_transfer import LARGE_BYTES, FolderContent, ShippedFiles
from benchorch.interfaces.attempt_files import AttemptFiles
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


@dataclass(frozen=True)
class Uploads(AttemptFiles):
    """A place for large files that may be away."""

    away: bool = False

    def add(self, folder: Path, names: Sequence[str], trial_id: str) -> tuple[UploadedFile, ...]:
        if self.away:
            raise StoreError("not now")
        return tuple(UploadedFile(name=name, key=f"{trial_id}/{name}", sha256="") for name in names)


@pytest.mark.parametrize("away", [True, False])
def test_large_files_are_uploaded_and_go_with_the_result_where_that_fails(
    tmp_path: Path, away: bool
) -> None:
    def work(trial: Trial, *, attempt: int, isolated: bool, emit: Emit) -> TrialResult:
        folder = tmp_path / "run" / "trials" / trial.trial_id
        folder.mkdir(parents=True)
        (folder / "log.txt").write_text("short")
        (folder / "trace.json").write_bytes(b"x" * (LARGE_BYTES + 1))
        return TrialResult(trial_id=trial.trial_id, labels={}, outcome=Outcome.OK)

    setup = AgentSetup(
        shipped=ShippedFiles(directory=tmp_path / "run", probe="probe"), uploads=Uploads(away)
    )
    report = Agent(work, setup).run(TRIAL, 1)
    assert report.files is not None
    assert {*report.files.files} == ({"log.txt", "trace.json"} if away else {"log.txt"})
    assert [file.name for file in report.result.uploads] == ([] if away else ["trace.json"])


def test_without_shipped_files_nothing_is_sent_back(tmp_path: Path) -> None:
    (tmp_path / "zoo.py").write_text("")
    os.chdir(tmp_path)
    assert Agent(writing(tmp_path), AgentSetup()).run(TRIAL, 1).files is None  # type: ignore[arg-type]
