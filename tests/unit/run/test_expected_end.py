"""When a run in rounds is expected to end."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from benchorch.domain.result import TrialResult
from benchorch.results.pricing.sweep_cost import TrialForecast
from benchorch.run.expected_end import ExpectedEnd
from support.synthetic_runs import result, trial

DECIDE = {"unpaired_processes": 3, "looks": [5, 8]}
EAGER = trial(stopping=DECIDE)
FAST = trial("fast", baseline=EAGER, stopping=DECIDE)
FORECAST = {one.trial_id: TrialForecast(seconds=60.0, usd=None) for one in (EAGER, FAST)}


def end(budget_s: float | None = None) -> ExpectedEnd:
    return ExpectedEnd.of([EAGER, FAST], FORECAST, budget_s)


def measured(of: TrialResult, processes: int, *, each_s: float) -> TrialResult:
    stages_s = {"measure": processes * each_s}
    return replace(of, processes=of.processes[:processes], stages_s=stages_s, unfinished=True)


OF_EAGER = replace(result(EAGER), stop_reason="")
OF_FAST = replace(result(FAST, 5e5, baseline_ns=1e6), stop_reason="")


def test_before_the_first_process_the_plans_forecast_counts() -> None:
    assert end().left_s == 120.0


def test_what_a_process_took_takes_the_place_of_the_forecast() -> None:
    found = end()
    found.note(measured(OF_EAGER, 1, each_s=2.0))
    found.note(measured(OF_FAST, 2, each_s=3.0))
    assert found.left_s == pytest.approx(2 * 2.0 + 3 * 3.0)


def test_an_undecided_candidate_is_expected_to_go_on_to_its_next_analysis() -> None:
    found = end()
    found.note(measured(OF_EAGER, 3, each_s=2.0))
    found.note(measured(OF_FAST, 5, each_s=3.0))
    assert found.left_s == pytest.approx(3 * 3.0)


def test_what_is_decided_takes_no_more_time() -> None:
    found = end()
    found.note(measured(OF_EAGER, 3, each_s=2.0))
    found.note(measured(OF_FAST, 5, each_s=3.0))
    found.decided.add(FAST.trial_id)
    assert found.left_s == 0.0


def test_a_budget_bounds_the_end_once_every_trial_has_begun() -> None:
    found = end(budget_s=50.0)
    found.note(measured(OF_EAGER, 1, each_s=20.0))
    assert found.left_s > 60.0
    found.note(measured(OF_FAST, 1, each_s=20.0))
    assert found.left_s <= 50.0
    assert found.budget_ends_s is not None
    assert found.budget_ends_s > time.monotonic()
