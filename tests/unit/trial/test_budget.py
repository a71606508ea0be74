"""What becomes of a build or a process that the run's budget ends, and what waits for a figure."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchorch.domain.result import Failure
from benchorch.domain.session import Session
from benchorch.domain.spending import BUDGET_REACHED
from benchorch.journal import run_directory
from benchorch.trial import stage_runner, stages
from benchorch.trial.rounds import in_rounds
from benchorch.trial.stage_runner import StageRunner, out_of_budget
from benchorch.trial.stages import StageFailed
from benchorch.trial.supervisor import FIRST_PROCESS_S, SPARE_S, OutOfTime, TimeBudget, TrialRun
from support.synthetic_runs import result, trial

REQUEST: Any = SimpleNamespace(template="")
LATE = Failure(stage="measure", kind="timeout", message="late", remedy="raise its limit")


def run_of(valid: Sequence[str], failure: Failure) -> Any:
    def run(*_: object, **__: object) -> None:
        raise StageFailed(failure)

    return SimpleNamespace(
        _stages=SimpleNamespace(run=run),
        _repetitions=SimpleNamespace(valid=valid),
        _noted=lambda reply: reply,
    )


@pytest.mark.parametrize("failure", [out_of_budget("measure", "meanwhile"), LATE])
def test_a_first_process_that_is_ended_fails_its_trial(failure: Failure) -> None:
    with pytest.raises(StageFailed) as failed:
        TrialRun._measure(run_of([], failure), REQUEST)
    assert failed.value.failure == failure


def test_a_further_process_that_the_budget_ended_costs_nothing_but_itself() -> None:
    def add(*_: object) -> None:
        raise StageFailed(out_of_budget("measure", "meanwhile"))

    run: Any = SimpleNamespace(
        repetitions=SimpleNamespace(valid=["one"], is_paired=True, add=add),
        measured_s=1.0,
        _failing=contextlib.nullcontext,
        _deadline_s=lambda first: None,
        _stages=SimpleNamespace(),
        _grade_machine=lambda: None,
    )
    with pytest.raises(OutOfTime):
        TrialRun.repeat(run)
    run.repetitions.valid.clear()
    with pytest.raises(StageFailed):
        TrialRun.repeat(run)


@pytest.mark.parametrize("stage", [stages.BUILD, stages.MEASURE, stages.PROFILE])
@pytest.mark.parametrize(
    ("left_s", "kind"), [(-1.0, BUDGET_REACHED), (1000.0, "timeout"), (None, "timeout")]
)
def test_every_stage_that_the_deadline_ends_names_the_budget(
    stage: Any, left_s: float | None, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = StageRunner(
        *(SimpleNamespace(trial_id="t", spec={}), SimpleNamespace(directory=Path())),  # type: ignore[arg-type]
        isolated=True,
        on_message=lambda stage, message: None,
    )
    child = SimpleNamespace(failure=LATE, partial=None, elapsed_s=1.0)
    monkeypatch.setattr(runner, "_child", lambda *_, **__: child)
    runner.deadline_s = None if left_s is None else time.monotonic() + left_s
    with pytest.raises(StageFailed) as failed:
        runner.run(stage, REQUEST)
    assert failed.value.failure.kind == kind


@pytest.mark.parametrize(
    ("stage", "kind", "limits", "named"),
    [
        (stages.BUILD, "timeout", {}, "limits.build_timeout_s"),
        (stages.PROFILE, "timeout", {}, "limits.measure_timeout_s"),
        (stages.MEASURE, "oom", {"memory_gib": 2}, "limits.memory_gib"),
        (stages.MEASURE, "oom", {"memory_gib": None}, "smaller"),
        (stages.MEASURE, "crash:SIGSEGV", {"memory_gib": 2}, "smaller"),
    ],
)
def test_a_limit_that_ends_a_stage_is_named_by_its_key(
    stage: Any,
    kind: str,
    limits: dict[str, int | None],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial: Any = SimpleNamespace(trial_id="t", spec={"limits": limits})
    session: Any = SimpleNamespace(directory=Path())
    runner = StageRunner(trial, session, isolated=True, on_message=lambda stage, message: None)
    failure = Failure(stage=stage.name, kind=kind, message="ended", remedy="something smaller")
    child = SimpleNamespace(failure=failure, partial=None, elapsed_s=1.0)
    monkeypatch.setattr(runner, "_child", lambda *_, **__: child)
    with pytest.raises(StageFailed) as failed:
        runner.run(stage, REQUEST)
    assert named in failed.value.failure.remedy


@pytest.mark.parametrize("stage", ["build", "measure", "profile", "explain", "energy"])
def test_the_limit_of_every_stage_ends_with_the_budget(stage: str) -> None:
    limits = {"build_timeout_s": 900.0, "measure_timeout_s": 900.0}
    runner: Any = SimpleNamespace(
        _trial=SimpleNamespace(spec={"limits": limits}),
        deadline_s=time.monotonic() + 30.0,
        schedules_s=60.0,
    )
    assert StageRunner._limits(runner, stage, 5.0).timeout_s <= 30.0
    runner.deadline_s = None
    most_s = 960.0 if stage == "measure" else 900.0  # its schedules come on top
    assert StageRunner._limits(runner, stage, 5.0).timeout_s == most_s
    runner.deadline_s = 0.0
    assert StageRunner._limits(runner, stage, 5.0).timeout_s == stage_runner.LEAST_S


def deadline(left_s: float, *, baseline: str | None, valid: Sequence[str], first: bool) -> float:
    """Seconds until the latest end of what begins now."""
    now_s = time.monotonic()
    run: Any = SimpleNamespace(
        _budget=TimeBudget(ends_s=now_s + left_s, sure=1, is_strict=True),
        trial=SimpleNamespace(baseline_id=baseline),
        _repetitions=SimpleNamespace(valid=valid),
    )
    found = TrialRun._deadline_s(run, first=first)
    assert found is not None
    return round(found - now_s)


def test_the_first_process_of_a_baseline_alone_may_exceed_the_budget() -> None:
    assert deadline(-1, baseline=None, valid=[], first=True) == FIRST_PROCESS_S
    assert deadline(100, baseline=None, valid=[], first=True) == 100 + SPARE_S
    assert deadline(10, baseline="eager", valid=[], first=True) == 10 + SPARE_S
    assert deadline(10, baseline=None, valid=["one"], first=False) == 10 + SPARE_S


@pytest.mark.parametrize("first", [True, False])
def test_a_candidate_without_figures_does_not_begin_after_the_budget(first: bool) -> None:
    with pytest.raises(StageFailed) as failed:
        deadline(-1, baseline="eager", valid=[], first=first)
    assert (failed.value.failure.stage, failed.value.failure.kind) == ("schedule", BUDGET_REACHED)


def test_a_baseline_is_not_built_after_the_budget() -> None:
    with pytest.raises(StageFailed):
        deadline(-1, baseline=None, valid=[], first=False)


def test_what_an_interrupted_run_measured_outlives_a_budget_that_ends_first(tmp_path: Path) -> None:
    baseline = trial("eager")
    candidate = trial("torchscript", baseline=baseline)
    store = {
        "_target_": "benchorch.stores.local.LocalStore",
        "root": str(tmp_path / "store"),
        "quota_gib": None,
    }
    session = Session(
        plan_id="p", directory=tmp_path, store=store, rebuild="if_needed", budget_s=0.0
    )
    earlier = replace(result(candidate, processes=3), unfinished=True)
    run_directory.append_round(tmp_path, earlier)
    (found,) = in_rounds([candidate], session=session, isolated=True, emit=lambda event: None)
    assert (found.failure and found.failure.kind, found.unfinished) == (BUDGET_REACHED, False)
    assert (found.processes, found.parity) == (earlier.processes, earlier.parity)
    run_directory.append_result(tmp_path, found, {})
    assert run_directory.read_rounds(tmp_path, candidate.trial_id) == earlier


def test_the_machine_is_graded_once_the_first_figure_is_out() -> None:
    happened: list[str] = []
    repetitions = SimpleNamespace(valid=[], is_paired=False)

    def add(*_: object) -> None:
        happened.append("measured")
        repetitions.valid.append("one")

    repetitions.add = add
    trial: Any = SimpleNamespace(
        repetitions=repetitions,
        measured_s=0.0,
        _failing=contextlib.nullcontext,
        _deadline_s=lambda first: None,
        _stages=SimpleNamespace(),
        _grade_machine=lambda: happened.append("graded"),
    )
    TrialRun.repeat(trial)
    TrialRun.repeat(trial)
    assert happened == ["measured", "graded", "measured"]


def repeated(measured_s: float, elapsed_s: float, *, hangs: bool = False) -> Any:
    """A trial after one repetition of its pairs, in which its baseline may have hung."""
    record = replace(result(trial()).processes[0], elapsed_s=elapsed_s)
    repetitions = SimpleNamespace(valid=[], is_paired=True)
    run: Any = SimpleNamespace(
        repetitions=repetitions,
        measured_s=0.0,
        _repetitions=None,
        _failing=contextlib.nullcontext,
        _deadline_s=lambda first: None,
        _stages=SimpleNamespace(),
        _grade_machine=lambda: None,
    )

    def add(*_: object) -> None:
        run.measured_s += measured_s
        repetitions.valid.append(record)
        repetitions.is_paired = not hangs

    repetitions.add = add
    TrialRun.repeat(run)
    return run


def fits(run: Any, left_s: float) -> bool:
    run._budget = TimeBudget(ends_s=time.monotonic() + left_s, sure=1, is_strict=True)
    return TrialRun.is_affordable(run)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("elapsed_s", [10.0, 0.0])  # of one that is no child nothing is known
def test_a_repetition_begins_only_where_all_its_processes_fit(
    processes: int, elapsed_s: float
) -> None:
    run = repeated(10.0 * processes, elapsed_s)
    assert fits(run, 10.0 * processes + 5)
    assert not fits(run, 10.0 * processes - 5)


def test_a_process_whose_baseline_has_hung_begins_where_it_fits_alone() -> None:
    run = repeated(10.0 + 600.0, 10.0, hangs=True)
    assert fits(run, 15.0)
    assert not fits(run, 5.0)
