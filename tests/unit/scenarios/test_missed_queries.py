"""Queries without an answer: counted under load, in no time but their own share."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from benchorch.domain.codec import decode, encode
from benchorch.domain.measurement import Observations
from benchorch.errors import MeasureError, MissedQuery
from benchorch.interfaces.scenario import Scenario
from benchorch.results.metrics.latency import latency_metrics
from benchorch.results.metrics.load import load_metrics
from benchorch.results.metrics.load_curve import load_points
from benchorch.results.metrics.load_warnings import load_warnings, missed_warnings
from benchorch.scenarios.offline import Offline
from benchorch.scenarios.peak_rate import PeakRate
from benchorch.scenarios.server import Server
from benchorch.scenarios.single_stream import SingleStream
from benchorch.scenarios.throughput_latency import ThroughputLatency
from benchorch.stats.between_processes import primary_ns
from support.clocks import VirtualClock
from support.load_runs import NS_PER_MS, QuickClock, process, run

SERVER = Server(rate_per_s=100, duration_s=20, min_queries=0, seed=1)


def refusing(clock: VirtualClock, every: int, cause: str = "503") -> Callable[[], object]:
    """A call of 4 ms, of which one in so many is refused after 0.1 ms."""
    calls = itertools.count(1)

    def call() -> None:
        if next(calls) % every == 0:
            clock.true_ns += NS_PER_MS // 10
            raise MissedQuery("busy", cause=cause, remedy="")
        clock.true_ns += 4 * NS_PER_MS

    return call


def limited(clock: VirtualClock, rate_per_s: float) -> Callable[[], object]:
    """A call of 1 ms that is refused where the last second had more than so many."""
    times: list[float] = []

    def call() -> None:
        times.append(clock.true_ns)
        while times[0] < clock.true_ns - 1e9:
            times.pop(0)
        clock.true_ns += NS_PER_MS // 10
        if len(times) > rate_per_s:
            raise MissedQuery("too many", cause="429", remedy="")
        clock.true_ns += NS_PER_MS

    return call


def test_a_load_goes_on_past_queries_without_an_answer() -> None:
    clock = QuickClock()
    observed = run(SERVER, refusing(clock, every=10), clock)
    count = len(observed.durations_ns)
    assert count > 1500
    assert list(observed.missed) == ["503"]
    assert len(observed.missed["503"]) == (count - 1) // 10 or count // 10
    assert decode(Observations, encode(observed)) == observed


def test_times_are_of_answered_queries_and_the_share_of_the_others_is_told() -> None:
    clock = QuickClock()
    processes = [process(run(SERVER, refusing(clock, every=3), clock))]
    metrics = load_metrics(processes)
    assert metrics["missed_ratio/mean"].value == pytest.approx(1 / 3, abs=0.01)
    assert metrics["service_ms/p50"].value == 4.0
    assert metrics["response_ms/p50"].value >= 4.0
    assert primary_ns(processes[0]) >= 4 * NS_PER_MS
    offered, achieved = metrics["offered_per_s/mean"].value, metrics["achieved_per_s/mean"].value
    assert achieved == pytest.approx(offered * 2 / 3, rel=0.02)
    (warning,) = [each for each in load_warnings(processes) if "had no answer (" in each]
    assert warning.startswith("Not sustained: 33")
    assert "(503: " in warning
    assert "more than the 1 % that scenario.quantile_ratio allows" in warning


def test_a_few_missed_queries_are_told_and_the_rate_holds() -> None:
    clock = QuickClock()
    scenario = replace(SERVER, target_ms=500.0)
    processes = [process(run(scenario, refusing(clock, every=500, cause="reset"), clock))]
    said = load_warnings(processes)
    (warning,) = [each for each in said if "had no answer (" in each]
    assert "(reset: " in warning
    assert "sustained" not in warning
    assert not any("target is missed" in each for each in said)


def test_queries_missed_in_the_first_tenth_count_in_no_share() -> None:
    """The warning said that a rate was not sustained whose target was met."""
    clock, calls = QuickClock(), itertools.count()

    def call() -> None:
        clock.true_ns += 4 * NS_PER_MS
        at = next(calls)
        if at < 50 or at == 1000:
            raise MissedQuery("busy", cause="503", remedy="")

    processes = [process(run(replace(SERVER, target_ms=500.0), call, clock))]
    share, said = load_metrics(processes)["missed_ratio/mean"].value, load_warnings(processes)
    (warning,) = [each for each in said if "had no answer (" in each]
    assert "(503: 1)" in warning
    assert f"of {1 / share:.0f} queries" in warning
    assert "sustained" not in warning


def test_a_missed_query_is_beyond_any_target() -> None:
    clock = QuickClock()
    scenario = replace(SERVER, target_ms=500.0)
    said = load_warnings([process(run(scenario, refusing(clock, every=10), clock))])
    assert any("The target is missed" in each and "had no answer" in each for each in said)


def test_all_of_a_batch_are_called_though_one_has_no_answer() -> None:
    clock = QuickClock()
    scenario = replace(SERVER, rate_per_s=1000, max_batch=4, duration_s=2)
    calls = refusing(clock, every=2)
    observed = run(scenario, calls, clock)
    assert len(observed.missed["503"]) == len(observed.durations_ns) // 2


def test_the_highest_rate_is_one_that_the_server_answers() -> None:
    clock = QuickClock()
    scenario = PeakRate(target_ms=100, budget_s=200, duration_s=20, min_queries=0, seed=3)
    found = load_metrics([process(run(scenario, limited(clock, 200), clock))])
    assert 120 < found["target_rate_per_s/max"].value < 205


def test_no_rate_is_the_highest_where_misses_do_not_depend_on_it() -> None:
    clock = QuickClock()
    scenario = PeakRate(target_ms=100, budget_s=200, duration_s=20, seed=3)
    processes = [process(run(scenario, refusing(clock, every=20), clock))]
    assert "target_rate_per_s/max" not in load_metrics(processes)
    assert any(each.startswith("Not sustained: ") for each in load_warnings(processes))


def test_a_curve_has_the_times_of_answered_queries() -> None:
    clock = QuickClock()
    scenario = ThroughputLatency(fractions=(0.3, 0.5), replicates=1, seed=2)
    points = load_points([process(run(scenario, refusing(clock, every=3), clock))])
    assert [point.p50 is not None and point.p50.value >= 4.0 for point in points] == [True, True]


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        (Server(utilisation_ratio=0.5, duration_s=1), "queries at full speed got"),
        (Server(rate_per_s=50, duration_s=1), "queries got"),
        (Offline(min_duration_s=0.5), "queries got"),
    ],
    ids=["capacity", "server", "offline"],
)
def test_a_run_without_any_answer_fails_with_the_counts(scenario: Scenario, said: str) -> None:
    clock = VirtualClock()
    with pytest.raises(MeasureError, match=rf"None of the {said} an answer \(503: \d+\)"):
        run(scenario, refusing(clock, every=1), clock)


def test_offline_counts_answered_calls_only() -> None:
    clock = VirtualClock()
    observed = run(Offline(min_duration_s=1.0), refusing(clock, every=4), clock)
    processes = [process(observed)]
    metrics = latency_metrics(processes)
    per_call_s = (3 * 4.0 + 0.1) / 4 / 1000
    assert metrics["throughput_items_per_s/mean"].value == pytest.approx(
        0.75 / per_call_s, rel=0.02
    )
    assert metrics["missed_ratio/mean"].value == pytest.approx(0.25, abs=0.01)
    (warning,) = missed_warnings([observed])
    assert warning.startswith("25")
    assert "(503: " in warning


def test_without_a_load_a_query_without_an_answer_ends_the_run() -> None:
    clock = VirtualClock()
    with pytest.raises(MissedQuery):
        run(SingleStream(), refusing(clock, every=3), clock)
