"""What works through leases, where the driver's disk is seen and where it is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.agent import Agent, Outfit
from benchorch.executors.scheduling.file_transfer import Luggage, Packed
from benchorch.interfaces.executor import Emit

TRIAL = Trial(trial_id="t", labels={}, spec={})


@pytest.fixture(autouse=True)
def place() -> Iterator[None]:
    """Agents move to the driver's working directory; the tests go on from where they were."""
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
def test_files_come_back_only_from_a_machine_that_does_not_see_the_run(
    tmp_path: Path, seen: bool
) -> None:
    run, home = tmp_path / "run", tmp_path / "home"
    if seen:
        run.mkdir()
        home.mkdir()
        (run / "nonce").touch()
        (home / "zoo.py").write_text("x = 1")
    files = {(home / "zoo.py").as_posix().lstrip("/"): b"x = 1"}
    luggage = Luggage(
        directory=run, nonce="nonce", working_directory=home, packed=Packed(files=files)
    )
    agent = Agent(writing(run), Outfit(luggage=luggage))  # type: ignore[arg-type]
    report = agent.run(TRIAL, 1)
    assert report.files == (None if seen else Packed(files={"log.txt": b"what was logged"}))
    assert [event.message for event in report.events] == ["x = 1"]


def test_without_luggage_nothing_travels(tmp_path: Path) -> None:
    (tmp_path / "zoo.py").write_text("")
    os.chdir(tmp_path)
    assert Agent(writing(tmp_path), Outfit()).run(TRIAL, 1).files is None  # type: ignore[arg-type]
