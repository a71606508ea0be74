"""The doctor's experiments, apart from what they find on a real machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchorch.cli.commands.doctor import overhead as doctor_overhead
from benchorch.cli.commands.doctor import self_comparison
from benchorch.cli.commands.doctor.overhead import overhead
from benchorch.cli.commands.doctor.self_comparison import ComparisonRequest, controls, look
from benchorch.cli.commands.doctor.timer_accuracy import agreement
from benchorch.domain.certificate import Interleaving
from benchorch.domain.measurement import Calibration, Observations, ProcessRecord
from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import ExecutorError
from benchorch.host.bare_loop import bare_blocks_ns

TRIAL = Trial(trial_id="t", labels={}, spec={"model": {"widths": [4, 3, 2]}})
SESSION = {"store": {}, "profiler": {}, "rebuild": "if_needed", "cwd": "."}
PLAN = Plan(plan_id="p", name="n", trials=(TRIAL,), skips=(), session=SESSION)
PROCESS = ProcessRecord(
    load_s=0.1,
    first_call_s=0.1,
    observations=Observations(
        durations_ns=(1_000_000,) * 100, started_ns=(0,) * 100, calls_per_block=1, items_per_call=1
    ),
    steady_from=0,
    calibration=Calibration(pair_cost_ns=50.0, step_ns=10.0),
    peak_rss_bytes=1,
    facts={},
    elapsed_s=2.0,
)
RESULT = TrialResult(trial_id="t", labels={}, outcome=Outcome.OK, processes=(PROCESS, PROCESS))


def test_a_bare_loop_times_blocks_until_its_slice_is_over() -> None:
    called = []
    blocks_ns = bare_blocks_ns(lambda: called.append(1), 7, 200_000)
    assert len(called) == 7 * len(blocks_ns)
    assert min(blocks_ns) > 0
    assert sum(blocks_ns[:-1]) <= 200_000


def test_too_few_pairs_have_no_interval_and_are_refused() -> None:
    with pytest.raises(ValueError, match="5 pairs are too few"):
        agreement(pairs=5)


def test_identical_work_and_a_tenth_more_are_looked_at_in_one_process() -> None:
    request = ComparisonRequest(products=20, extra_ratios=(0.0, 0.1), window_s=0.01, seed=1)
    found = look(request, slice_ms=1.0)
    assert len(found) == 2
    assert all(0 < side[1] <= side[0] for one in found for side in (one.more, one.base))


def test_what_coming_first_costs_is_no_difference_of_identical_work(tmp_path, monkeypatch) -> None:
    def first_is_slower(_: object, request: ComparisonRequest) -> list[Interleaving]:
        more, base = (1010.0, 1000.0) if request.more_first else (1000.0, 1010.0)
        slower = Interleaving(more=(1.1 * more, 1.1 * more), base=(base, base))
        return [Interleaving(more=(more, more), base=(base, base)), slower]

    monkeypatch.setattr(self_comparison, "one_process", first_is_slower)
    found = controls(tmp_path / "log.txt")
    assert found.same.ratio.value == pytest.approx(1.0)
    assert found.told_apart


def test_a_control_process_that_does_not_answer_is_told(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(self_comparison, "_ENTRY", "raise SystemExit(3)")
    with pytest.raises(ExecutorError, match="A control process failed"):
        controls(tmp_path / "log.txt", processes=1)


def run_trial(result: TrialResult, *messages: str):
    """Stands in for a trial that says these things while it measures."""

    def run(trial: Trial, *, emit, **_: object) -> TrialResult:
        emit(Event(trial_id=trial.trial_id, stage="build", message="process 1"))
        for message in messages:
            emit(Event(trial_id=trial.trial_id, stage="measure", message=message))
        return result

    return run


def test_a_bare_process_runs_before_each_process_of_the_trial(tmp_path, monkeypatch) -> None:
    said = ["process 1", "process 1 loading", "process 2", "process 2 measuring"]
    widths: list[object] = []

    def floor_s(of: object) -> float:
        widths.append(of)
        return 1.0

    monkeypatch.setattr(doctor_overhead, "_floor_s", floor_s)
    monkeypatch.setattr(doctor_overhead, "run_trial", run_trial(RESULT, *said))
    found = overhead(PLAN, TRIAL, tmp_path)
    assert widths == [[4, 3, 2], [4, 3, 2]]
    assert found.share.value == pytest.approx((2.0 - 0.1 - 1.0) / 2.0)


def test_a_trial_that_fails_is_told_with_its_reason(tmp_path, monkeypatch) -> None:
    failure = Failure(stage="build", kind="missing_package", message="torch is not installed.")
    failed = replace(RESULT, failure=failure, processes=())
    monkeypatch.setattr(doctor_overhead, "run_trial", run_trial(failed))
    with pytest.raises(ExecutorError, match="torch is not installed"):
        overhead(PLAN, TRIAL, tmp_path)


def test_a_bare_process_that_fails_is_told_with_its_last_line(monkeypatch) -> None:
    monkeypatch.setattr(doctor_overhead, "_FLOOR", "raise RuntimeError('no such thing')")
    with pytest.raises(ExecutorError, match="no such thing"):
        doctor_overhead._floor_s([1, 1])
