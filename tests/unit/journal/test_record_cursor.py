"""The cursor over a run's results: what it reads, how often, and how much of it it holds."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.journal import run_directory
from benchorch.journal.record_cursor import RecordCursor
from support.recorded_trials import process_record
from support.synthetic_runs import AGREES, result, trial, write_run

ADDRESS = {"uri": "memory://", "experiment": "e"}


def plan_of(*names: str) -> Plan:
    trials = tuple(Trial(trial_id=name, labels={}, spec={}) for name in names)
    return Plan(plan_id="p", name="n", trials=trials, skips=(), session={})


def end(directory: Path, name: str, text: str = "", baseline_id: str | None = None) -> None:
    """A trial ends, and notes this much of its machine."""
    result = TrialResult(
        trial_id=name,
        labels={},
        outcome=Outcome.OK,
        processes=(process_record((1, 2, 3)),),
        environment={"fact": text},
        baseline_id=baseline_id,
    )
    run_directory.append_result(directory, result, {"metrics": {"text": text}})


@pytest.fixture
def plans_read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories whose plans were read."""
    found: list[Path] = []
    read = run_directory.read_plan

    def noted(directory: Path) -> Plan:
        found.append(directory)
        return read(directory)

    monkeypatch.setattr(run_directory, "read_plan", noted)
    return found


def test_results_are_not_held(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(50)]
    run_directory.write_plan(tmp_path, plan_of(*names))
    for name in names:
        end(tmp_path, name, text=name * 20_000)
    cursor = RecordCursor(tmp_path, ADDRESS)
    cursor.read_on()
    tracemalloc.start()
    try:
        other = RecordCursor(tmp_path, ADDRESS)
        other.read_on()
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = (tmp_path / run_directory.RESULTS).stat().st_size
    assert held_bytes < size / 10
    assert cursor.pending(final=True) == names
    assert cursor.result("t7").environment == {"fact": "t7" * 20_000}
    assert len(cursor.result("t7").processes[0].observations.durations_ns) == 3


def test_a_plan_is_read_once_however_many_results_are_of_other_plans(
    tmp_path: Path, plans_read: list[Path]
) -> None:
    run_directory.write_plan(tmp_path, plan_of("t0"))
    for number in range(5):
        end(tmp_path, f"foreign{number}")
    cursor = RecordCursor(tmp_path, ADDRESS)
    cursor.read_on()
    cursor.read_plan()
    assert cursor.pending(final=True) == []
    assert len(plans_read) == 1


def test_trials_that_were_planned_since_are_recorded(
    tmp_path: Path, plans_read: list[Path]
) -> None:
    run_directory.write_plan(tmp_path, plan_of("t0"))
    cursor = RecordCursor(tmp_path, ADDRESS)
    run_directory.write_plan(tmp_path, plan_of("t0", "t1"))
    end(tmp_path, "t1", baseline_id="t0")
    cursor.read_on()
    assert len(plans_read) == 2
    assert cursor.pending(final=True) == ["t1"]
    assert cursor.pending(final=False) == []
    end(tmp_path, "t0")
    cursor.read_on()
    assert cursor.pending(final=False) == ["t1", "t0"]
    baseline = cursor.baseline("t1")
    assert baseline is not None
    assert baseline.trial_id == "t0"


def test_a_trial_is_recorded_again_beside_another_verdict_on_its_baseline(tmp_path: Path) -> None:
    eager = trial()
    fast = trial("fast", baseline=eager)
    own, of_fast = result(eager), result(fast)
    counting = replace(own, parity=AGREES.not_deterministic("it counts its calls."))
    directory = write_run(tmp_path / "run", (eager, counting), (fast, of_fast))
    cursor = RecordCursor(directory, ADDRESS)
    cursor.read_on()
    assert cursor.result(fast.trial_id).disagrees
    for name in (eager.trial_id, fast.trial_id):
        cursor.mark(name, "run", "")
    run_directory.append_result(directory, own, {})
    cursor.read_on()
    assert cursor.pending(final=True) == [eager.trial_id, fast.trial_id]
    assert cursor.result(fast.trial_id) == of_fast


@pytest.mark.parametrize("content", [None, b"", b"x" * 2000 + b"\n"])
def test_a_line_that_was_written_anew_meanwhile_is_refused(
    content: bytes | None, tmp_path: Path
) -> None:
    run_directory.write_plan(tmp_path, plan_of("t0"))
    end(tmp_path, "t0")
    cursor = RecordCursor(tmp_path, ADDRESS)
    cursor.read_on()
    path = tmp_path / run_directory.RESULTS
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(run_directory.SeriesError):
        cursor.result("t0")
