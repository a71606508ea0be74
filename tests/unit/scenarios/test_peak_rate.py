"""The search for the highest rate, and the curve: what they offer and when they end."""

from __future__ import annotations

import pytest

from benchorch.scenarios.open_loop import MOST_QUERIES, OpenLoop
from benchorch.scenarios.peak_rate import PeakRate
from benchorch.scenarios.server import Server
from benchorch.scenarios.throughput_latency import ThroughputLatency
from benchorch.stats.peak_rate import Belief
from support.load_runs import QuickClock, constant, run


def test_capacity_comes_first_then_probes_then_one_run_of_full_length() -> None:
    observed = run(PeakRate(target_ms=10, budget_s=30, duration_s=10, seed=1))
    purposes = [load.purpose for load in observed.loads]
    assert purposes[:2] == ["capacity", "capacity"]
    assert purposes[-1] == "confirmation"
    assert set(purposes[2:-1]) == {"probe"}
    assert all(load.target_ms == 10 for load in observed.loads)
    confirmed = observed.loads[-1]
    assert confirmed.end - confirmed.first == pytest.approx(10 * confirmed.rate_per_s, abs=1)


@pytest.mark.parametrize("call_ms", [0.2, 50.0, 700.0])
def test_the_search_ends_with_its_budget(call_ms: float) -> None:
    clock = QuickClock()
    scenario = PeakRate(
        target_ms=8 * call_ms, budget_s=60, duration_s=1, min_queries=0, width_ratio=1e-6, seed=1
    )
    observed = run(scenario, constant(clock, call_ms), clock)
    probes = [load for load in observed.loads if load.purpose == "probe"]
    first, last = probes[0].first, probes[-1].end
    searched_s = (observed.scheduled_ns[last - 1] - observed.scheduled_ns[first]) / 1e9
    assert searched_s < 75
    assert len(probes) >= 3


def test_a_probe_of_a_fast_model_has_no_more_queries_than_any_load() -> None:
    scenario = PeakRate(target_ms=1, quantile_ratio=0.9999)
    found = Belief(value=1e5, low=5e4, high=2e5)
    assert scenario._next_length(1e5, 9, found, 100.0) == MOST_QUERIES


def test_a_model_too_slow_for_any_probe_is_not_confirmed_either() -> None:
    clock = QuickClock()
    scenario = PeakRate(target_ms=100_000, budget_s=5, seed=1)
    observed = run(scenario, constant(clock, 20_000.0), clock)
    assert {load.purpose for load in observed.loads} == {"capacity"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_ms": 0.0}, "target_ms: above 0"),
        ({"target_ms": 1.0, "width_ratio": 0.0}, "width_ratio"),
        ({"target_ms": 1.0, "budget_s": 0.0}, "budget_s"),
    ],
)
def test_an_option_out_of_its_bounds_is_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PeakRate(**options)  # type: ignore[arg-type]


def test_the_curve_offers_every_fraction_as_often_as_asked_in_random_order() -> None:
    scenario = ThroughputLatency(
        fractions=(0.2, 0.4, 0.6, 0.8), replicates=3, duration_s=1, min_queries=0, seed=4
    )
    offered = [load for load in run(scenario).loads if load.purpose == "offered"]
    shares = [load.utilisation_ratio or 0.0 for load in offered]
    assert sorted(shares) == [0.2] * 3 + [0.4] * 3 + [0.6] * 3 + [0.8] * 3
    assert shares != sorted(shares)
    assert len({load.seed for load in offered}) == 12
    for load in offered:
        assert load.rate_per_s == pytest.approx(1000 * (load.utilisation_ratio or 0.0))


@pytest.mark.parametrize(
    "scenario",
    [Server(rate_per_s=1.5, seed=1), PeakRate(target_ms=8000, seed=1), ThroughputLatency(seed=1)],
)
def test_the_schedules_of_a_slow_model_take_no_longer_than_is_known_before(
    scenario: OpenLoop,
) -> None:
    clock = QuickClock()
    observed = run(scenario, constant(clock, 1000.0), clock)
    offered = next(load for load in observed.loads if load.purpose != "capacity")
    ended_ns = observed.started_ns[-1] + observed.durations_ns[-1]
    took_s = (ended_ns - observed.scheduled_ns[offered.first]) / 1e9
    assert scenario.schedules_s / 3 < took_s < scenario.schedules_s


@pytest.mark.parametrize("fractions", [(), (0.0,), (0.5, 3.0)])
def test_fractions_that_cannot_be_offered_are_refused(fractions: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="fractions: at least one"):
        ThroughputLatency(fractions=fractions)
