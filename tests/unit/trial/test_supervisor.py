"""A trial that goes on after an interruption, and one that does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.config.composer import Composer, config_loader
from benchorch.domain.result import BuildRecord, ModelCounts, TrialResult
from benchorch.domain.session import AGAIN, Event, Session
from benchorch.domain.trial import Trial
from benchorch.journal import run_directory
from benchorch.run.planner import plan_jobs
from benchorch.trial.repetitions import Repetitions
from benchorch.trial.stages import Built
from benchorch.trial.supervisor import TrialRun
from support.synthetic_runs import result

RECORD = BuildRecord(
    key="k",
    cache="miss",
    build_s=3.0,
    original_build_s=3.0,
    artifact_bytes=1000,
    model_digest="weights",
    reference="code",
)


@pytest.fixture(scope="module")
def eager() -> Trial:
    composer = Composer(config_loader())
    words = ["model=mlp", "conversion=eager", "hardware=local", "hardware.threads=1"]
    (found,) = plan_jobs(composer, composer.jobs(words, sweep=False), "p").plan.trials
    return found


def interrupted(eager: Trial, build: BuildRecord) -> TrialResult:
    stages_s = {"measure": 40.0}
    found = result(eager, processes=3, build=build, stages_s=stages_s)
    return replace(found, unfinished=True)


def resumed(
    eager: Trial,
    directory: Path,
    earlier: TrialResult,
    now: BuildRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Repetitions, float, list[str]]:
    """What goes on, the seconds that its processes took, and the stages that were reported."""
    store = {"_target_": "benchorch.stores.local.LocalStore", "root": str(directory / "store")}
    session = Session(plan_id="p", directory=directory, store=store, rebuild="if_needed")
    events: list[Event] = []
    run = TrialRun(eager, session, isolated=True, emit=events.append, earlier=earlier)
    built = Built(
        record=now,
        source=None,
        sources={},
        states={},
        reference=directory,
        scratch=directory,
        counts=ModelCounts(parameters=1, parameter_bytes=4, macs=1, flops=2),
    )
    monkeypatch.setattr(run, "_build", lambda *_: built)
    run_directory.append_round(directory, earlier)
    run.start()
    assert run.failure is None
    return run.repetitions, run.measured_s, [event.stage for event in events]


@pytest.mark.parametrize(
    "now",
    [
        replace(RECORD, cache="hit", build_s=0.0),
        replace(RECORD, key="other", reference=""),  # of a model which cannot be identified
    ],
)
def test_processes_of_the_same_build_go_on(
    eager: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: BuildRecord
) -> None:
    earlier = interrupted(eager, RECORD)
    found, measured_s, stages = resumed(eager, tmp_path, earlier, now, monkeypatch)
    assert (len(found.records), found.parity, measured_s) == (3, earlier.parity, 40.0)
    assert AGAIN not in stages
    assert run_directory.read_rounds(tmp_path, eager.trial_id) is not None


@pytest.mark.parametrize(
    "now",
    [
        replace(RECORD, key="other"),
        replace(RECORD, model_digest="other"),
        replace(RECORD, key="other", model_digest="other", reference=""),
        replace(RECORD, reference="other"),
    ],
)
def test_processes_and_the_verdict_of_another_build_or_model_do_not(
    eager: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: BuildRecord
) -> None:
    earlier = interrupted(eager, RECORD)
    found, measured_s, stages = resumed(eager, tmp_path, earlier, now, monkeypatch)
    assert (found.records, found.parity, measured_s) == ([], None, 0.0)
    assert AGAIN in stages
    assert run_directory.read_rounds(tmp_path, eager.trial_id) is None
