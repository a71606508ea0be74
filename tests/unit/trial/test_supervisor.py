"""A trial that goes on after an interruption, and one that does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchorch.config.composer import Composer, config_loader
from benchorch.config.trial_setup import TrialSetup
from benchorch.domain.result import BuildRecord, Failure, ModelCounts, TrialResult
from benchorch.domain.session import AGAIN, Event, Session
from benchorch.domain.trial import ConfigNode, Trial
from benchorch.journal import run_directory
from benchorch.run.planner import plan_jobs
from benchorch.trial.repetitions import Repetitions
from benchorch.trial.stage_runner import out_of_budget
from benchorch.trial.stages import Built, StageFailed
from benchorch.trial.supervisor import TrialRun
from support.synthetic_runs import result

CRASH = Failure(stage="build", kind="crash:SIGSEGV", message="it crashed")
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


def session_in(directory: Path) -> Session:
    store = {"_target_": "benchorch.stores.local.LocalStore", "root": str(directory / "store")}
    return Session(plan_id="p", directory=directory, store=store, rebuild="if_needed")


def built_in(directory: Path, build: BuildRecord) -> Built:
    return Built(
        record=build,
        source=None,
        sources={},
        states={},
        reference=directory,
        scratch=directory,
        counts=ModelCounts(parameters=1, parameter_bytes=4, macs=1, flops=2),
    )


def resumed(
    eager: Trial,
    directory: Path,
    earlier: TrialResult,
    now: BuildRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Repetitions, float, list[str]]:
    """What goes on, the seconds that its processes took, and the stages that were reported."""
    events: list[Event] = []
    run = TrialRun(eager, session_in(directory), isolated=True, emit=events.append, earlier=earlier)
    monkeypatch.setattr(run, "_build", lambda *_: built_in(directory, now))
    run_directory.append_round(directory, earlier)
    run.start()
    assert run.failure is None
    return run.repetitions, run.measured_s, [event.stage for event in events]


@pytest.mark.parametrize(
    "now",
    [
        replace(RECORD, cache="hit", build_s=0.0),
        replace(RECORD, reference=""),  # of eager, which has no key, of an unidentified model
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
    ("failure", "pairing"),
    [
        (out_of_budget("build", "during this stage"), "alternated"),
        (CRASH, "none: the baseline was not built (crash:SIGSEGV)"),
    ],
)
def test_a_budget_that_ends_the_baselines_build_changes_no_design(
    eager: Trial,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: Failure,
    pairing: str,
) -> None:
    conversion: Any = eager.spec["conversion"]
    candidate = replace(eager, baseline_id="baseline", baseline_conversion=conversion)
    earlier = replace(interrupted(candidate, RECORD), pairing="alternated")
    run = TrialRun(
        candidate, session_in(tmp_path), isolated=True, emit=lambda event: None, earlier=earlier
    )

    def build(setup: TrialSetup, spec: ConfigNode, name: str) -> Built:
        if name.endswith("baseline"):
            raise StageFailed(failure)
        return built_in(tmp_path, RECORD)

    monkeypatch.setattr(run, "_build", build)
    monkeypatch.setattr(TrialSetup, "leaves_files", True)
    run.start()
    found = run.result(unfinished=True)
    assert (found.failure, found.pairing, len(found.processes)) == (None, pairing, 3)


@pytest.mark.parametrize(
    "now",
    [
        replace(RECORD, key="other"),
        replace(RECORD, model_digest="other"),
        replace(RECORD, key="other", reference=""),  # which keys of an unidentified model are
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
