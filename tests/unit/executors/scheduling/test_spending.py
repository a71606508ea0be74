"""What launched machines cost and what a budget still allows, at round prices."""

from __future__ import annotations

from typing import Any

import pytest

from benchorch.domain.price import Market, PriceSnapshot
from benchorch.domain.spending import Spending, SpendingRules
from benchorch.executors.scheduling.cluster_file import Placement
from benchorch.executors.scheduling.spending import (
    BESIDES_USD_PER_HOUR,
    END_S,
    IDLE_S,
    LAUNCH_S,
    REPORT_S,
    SpendingMeter,
)
from support.synthetic_runs import price

MILLI = 3.6
"""Dollars an hour that are 0.001 dollars a second."""

A, B = (Placement(kind=kind, market=Market.ON_DEMAND) for kind in "ab")
SPOT_A, SPOT_B = (Placement(kind=kind, market=Market.SPOT) for kind in "ab")
UNKNOWN = Placement(kind="c", market=Market.ON_DEMAND)


PRICES = PriceSnapshot(
    on_demand={
        "a": price("a", MILLI - BESIDES_USD_PER_HOUR),
        "b": price("b", 2 * MILLI - BESIDES_USD_PER_HOUR),
    },
    spot={"a": price("a", MILLI / 4 - BESIDES_USD_PER_HOUR, Market.SPOT)},
)


def meter(max_usd: float | None = None, **rules: Any) -> SpendingMeter:
    return SpendingMeter(rules=SpendingRules(max_usd=max_usd, **rules), prices=PRICES)


def near(usd: float) -> Any:
    return pytest.approx(usd, abs=1e-9)


def test_time_counts_at_what_ran_then() -> None:
    spent = meter()
    spent.observe(50, {A: 1})
    assert spent.usd == 0
    spent.observe(150, {A: 2, B: 1})
    assert spent.usd == near(0.1)
    spent.observe(250, {})
    assert spent.usd == near(0.1 + 0.1 * 4)
    spent.observe(999, {})
    assert spent.usd == near(0.5)


def test_what_was_spent_before_and_the_head_count_too() -> None:
    spent = meter(spent_usd=2.0, head_usd_per_hour=MILLI / 10)
    spent.observe(0, {A: 1})
    spent.observe(100, {})
    spent.observe(200, {})
    assert spent.usd == near(2.0 + 0.11 + 0.01)


@pytest.mark.parametrize(
    ("placement", "usd"), [(SPOT_A, 0.025), (SPOT_B, 0.2), (B, 0.2), (UNKNOWN, 0.0)]
)
def test_a_spot_machine_without_a_price_costs_what_it_does_on_demand(
    placement: Placement, usd: float
) -> None:
    spent = meter()
    spent.observe(0, {placement: 1})
    spent.observe(100, {})
    assert spent.usd == near(usd)


def test_without_prices_nothing_is_metered() -> None:
    spent = SpendingMeter(rules=SpendingRules(max_usd=1.0))
    spent.observe(0, {A: 5})
    spent.observe(10**6, {A: 5})
    assert spent.usd == 0
    assert spent.reached() is None
    assert spent.affordable({"a": 9}, {"a": 900}, {}, {"a": 1}) == {"a": 9}


def test_a_budget_is_reached_when_ending_the_machines_takes_the_rest() -> None:
    spent = meter(1.0)
    spent.observe(0, {A: 2})
    last_s = (1.0 - 2 * END_S / 1000) / 0.002
    spent.observe(last_s - 1, {A: 2})
    assert spent.reached() is None
    spent.observe(last_s + 1, {A: 2})
    failure = spent.reached()
    assert failure is not None
    assert (failure.stage, failure.kind) == ("schedule", "budget_reached")
    assert failure.message == "0.88 of budget.max_usd=1 is spent; the machines were ended"
    assert "Raise budget.max_usd" in failure.remedy
    assert meter().reached() is None


def test_machines_may_stay_idle_while_the_budget_pays_for_it() -> None:
    spent = meter(1.0)
    spent.observe(0, {A: 1})
    last_s = 1000 - IDLE_S - END_S
    spent.observe(last_s - 1, {A: 1})
    assert not spent.cannot_idle()
    spent.observe(last_s + 1, {A: 1})
    assert spent.cannot_idle()
    unlimited = meter()
    unlimited.observe(0, {A: 1})
    unlimited.observe(10**6, {A: 1})
    assert (unlimited.is_limited, unlimited.cannot_idle()) == (False, False)


def test_a_trial_begins_where_the_rest_of_the_budget_pays_for_it() -> None:
    spent = meter(1.0)
    spent.observe(0, {A: 2})
    left_s = 1000 - 2 * END_S
    assert spent.declined("a", left_s - 1, "m1") is None
    failure = spent.declined("a", left_s + 1, "m1")
    assert failure is not None
    assert failure.message.endswith("this trial is expected to cost 0.88")
    spent.begin("t1", "a", 500, "m1")
    # On another machine what t1 still takes is committed; on its own it is paid for.
    assert spent.declined("a", left_s - 501, "m2") is None
    assert spent.declined("a", left_s - 499, "m2") is not None
    assert spent.declined("a", left_s - 1, "m1") is None
    assert spent.declined("a", left_s + 1, "m1") is not None
    assert spent.declined("b", (left_s - 500) / 2 - 1, "m2") is None
    assert spent.declined("b", (left_s - 500) / 2 + 1, "m2") is not None
    spent.end("t1")
    spent.end("never begun")
    assert spent.declined("a", left_s - 1, "m2") is None
    assert meter().declined("a", 10**9, "m") is None


def test_the_last_trial_of_a_machine_is_what_it_runs_until() -> None:
    spent = meter(1.0)
    spent.observe(0, {A: 1})
    spent.begin("long", "a", 500, "m1")
    spent.begin("short", "a", 100, "m1")
    left_s = 1000 - END_S
    assert spent.declined("a", left_s - 501, "m2") is None
    assert spent.declined("a", left_s - 499, "m2") is not None
    spent.observe(200, {A: 1})  # 200 of the 500 seconds are spent, 300 are committed
    assert spent.declined("a", left_s - 501, "m2") is None
    assert spent.declined("a", left_s - 499, "m2") is not None


def test_trials_to_come_are_judged_by_their_market() -> None:
    spent = meter(1.0, market=Market.SPOT)
    spent.observe(0, {})
    assert spent.declined("a", 4000 - 1, "m") is None
    assert spent.declined("a", 4000 + 1, "m") is not None


def test_the_first_machine_of_a_kind_is_launched_where_its_start_is_paid_for() -> None:
    spent = meter(1.0, launch_s={"b": 1000.0})
    spent.observe(0, {A: 1})
    assert spent.no_launch("a") is None  # one is there
    failure = spent.no_launch("b")
    assert failure is not None
    assert failure.message.endswith("launching a b is expected to cost 2.00")
    poor = meter(LAUNCH_S / 1000 + 0.001)
    assert poor.no_launch("a") is None
    assert poor.no_launch("b") is not None
    assert meter().no_launch("b") is None


def test_as_many_machines_are_affordable_as_their_starts_and_idle_ends() -> None:
    start_usd = (LAUNCH_S + IDLE_S) / 1000
    for machines in (1, 2, 3):
        spent = meter(0.1 + machines * start_usd + 0.001)
        spent.observe(0, {})
        assert spent.affordable({"a": 5}, {"a": 100}, {}, {"a": 1}) == {"a": machines}
    # One is enough for all of its trials, whatever is left; but not more than there are trials.
    assert meter(0.2).affordable({"a": 5}, {"a": 100}, {}, {"a": 1}) == {"a": 1}
    assert meter(99).affordable({"a": 5}, {"a": 100}, {}, {"a": 1}) == {"a": 5}
    assert meter(99).affordable({"a": 0}, {"a": 0}, {}, {"a": 1}) == {"a": 0}


def test_slots_of_a_machine_count_as_one_machine() -> None:
    start_usd = (LAUNCH_S + IDLE_S) / 1000
    spent = meter(0.05 + 2 * start_usd + 0.001)
    found = spent.affordable({"a": 9}, {"a": 200}, {}, {"a": 4})
    assert found == {"a": 8}  # two machines, whose work takes 200 s over four slots


def test_machines_that_are_there_are_used_first_and_pay_their_idle_end() -> None:
    start_usd = (LAUNCH_S + IDLE_S) / 1000
    there_usd = (2 * END_S + 100 + 2 * IDLE_S + LAUNCH_S) / 1000
    for more in (0, 1):
        spent = meter(there_usd + more * start_usd + 0.001)
        spent.observe(0, {A: 2})
        assert spent.affordable({"a": 9}, {"a": 100}, {"a": 1}, {"a": 1}) == {"a": 1 + more}


def test_what_one_kind_launches_is_not_there_for_the_next() -> None:
    start_usd = (LAUNCH_S + IDLE_S) / 1000
    spent = meter(0.3 + 4 * start_usd + 0.001)
    queued, queued_s, slots = {"a": 3, "b": 3}, {"a": 100.0, "b": 100.0}, {"a": 1, "b": 1}
    assert spent.affordable(queued, queued_s, {}, slots) == {"a": 3, "b": 1}
    spent = meter(0.3 + 5 * start_usd + 0.001)
    assert spent.affordable({"b": 2, "a": 3}, queued_s, {}, slots) == {"b": 2, "a": 1}


def test_machines_that_come_or_go_are_reported_at_once_and_growth_now_and_then() -> None:
    spent = meter(5.0)
    assert spent.last_report() is None
    spent.observe(0, {})
    assert spent.report() is None
    spent.observe(1, {A: 1, SPOT_A: 2, B: 0})
    assert spent.report() == Spending(usd=0.0, max_usd=5.0, machines={"a": 3})
    spent.observe(1 + REPORT_S - 1, {A: 1, SPOT_A: 2})
    assert spent.report() is None
    spent.observe(1 + REPORT_S, {A: 1, SPOT_A: 2})
    grown = spent.report()
    assert grown is not None
    assert grown.usd == near(REPORT_S * 0.0015)
    spent.observe(2 + REPORT_S, {})
    gone = spent.report()
    assert gone is not None
    assert gone.machines == {}
    spent.observe(100 + REPORT_S, {})
    assert spent.report() is None  # nothing has grown
    assert spent.last_report() == gone


def test_a_launch_is_observed_from_a_kinds_first_machine_to_its_first_trial() -> None:
    spent = meter()
    spent.observe(0, {B: 1})
    spent.observe(10, {A: 1, B: 1})
    spent.observe(70, {A: 2, B: 1})
    spent.begin("t1", "a", 5, "m1")
    spent.begin("t2", "b", 5, "m2")  # it was there before, for nobody knows how long
    spent.observe(100, {A: 2, B: 1})
    spent.begin("t3", "a", 5, "m3")
    last = spent.report()
    assert last is not None
    assert last.launch_s == {"a": 60}
