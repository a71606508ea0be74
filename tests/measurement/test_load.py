"""Load generation and queueing: Q1 to Q10 of the protocol, and the SLO rule of I3.

What a queue does is compared with queueing theory. Two steps make that sharp: the generator must
agree with the queue's own recursion to the nanosecond, and the recursion, which is fast, must agree
with theory over millions of arrivals.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from benchorch.hardware.cpu import CpuClock
from benchorch.results.metrics.load import load_metrics, peak_of
from benchorch.results.metrics.load_curve import load_points
from benchorch.results.metrics.load_warnings import load_warnings
from benchorch.scenarios.arrivals import Arrivals, Kind
from benchorch.scenarios.peak_rate import PeakRate
from benchorch.scenarios.server import Server
from benchorch.scenarios.single_stream import SingleStream
from benchorch.scenarios.throughput_latency import ThroughputLatency
from benchorch.scenarios.virtual_queue import serve
from benchorch.stats.binomial_bound import ExceedanceCount, TargetStatus, kept
from benchorch.stats.queueing import (
    completions_ns,
    disagreement_ratio,
    lateness_ns,
    overloaded,
    replay,
    stretches,
)
from benchorch.stopping.fixed import Fixed
from support.ideal_queue import mean_response, response_quantile
from support.load_runs import (
    BatchingClock,
    Lockstep,
    LockstepLine,
    QuickClock,
    constant,
    only,
    process,
    queue,
    run,
    schedule,
    varying,
)
from support.slices import one_in

MILLION = 1_000_000
MS = 1_000_000
SEEDS = (1, 2, 3, 4)


def responses_ms(
    utilisation_ratio: float,
    seed: int,
    *,
    servers: int = 1,
    count: int = MILLION,
    services_ns: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Of the queue's own recursion, on the generator's own schedule."""
    due = schedule(utilisation_ratio, count, seed, servers=servers)
    spent = np.full(count, MS, dtype=np.int64) if services_ns is None else services_ns
    return (completions_ns(due, spent, servers) - due) / MS


@cache
def theory_seen_ms(utilisation_ratio: float) -> tuple[float, float]:
    """Mean and p99 of the responses to four million arrivals."""
    runs = (responses_ms(utilisation_ratio, seed) for seed in SEEDS)
    found = [(float(ms.mean()), float(np.quantile(ms, 0.99))) for ms in runs]
    mean, p99 = np.mean(found, axis=0)
    return float(mean), float(p99)


# --- Q1 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("utilisation", one_in(3, [0.5, 0.7, 0.8, 0.9]))
def test_the_generator_is_the_queue_to_the_nanosecond(utilisation: float) -> None:
    served = only(run(Server(rate_per_s=1000 * utilisation, duration_s=20, seed=1)))
    due = served.due_ns
    expected = completions_ns(due, np.full(due.size, MS, dtype=np.int64), 1) - due
    assert due.size >= 10_000
    np.testing.assert_array_equal(served.response_ns, expected)


@pytest.mark.parametrize(
    ("utilisation", "band"), one_in(3, [(0.5, 0.01), (0.7, 0.01), (0.8, 0.015), (0.9, 0.03)])
)
def test_mean_response_is_that_of_theory(utilisation: float, band: float) -> None:
    # The mean of four million arrivals scatters by 0.06, 0.14, 0.25 and 0.5 % (one s.e.).
    seen, _ = theory_seen_ms(utilisation)
    expected = 1 + utilisation / (2 * (1 - utilisation))
    assert mean_response(utilisation) == pytest.approx(expected, rel=1e-9)
    assert seen == pytest.approx(expected, rel=band)


# --- Q2 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("utilisation", "exact", "band"),
    one_in(3, [(0.5, 4.336, 0.01), (0.7, 7.485, 0.01), (0.8, 11.356, 0.02), (0.9, 22.898, 0.05)]),
)
def test_p99_is_that_of_theory(utilisation: float, exact: float, band: float) -> None:
    # Over four million arrivals p99 scatters by 0.2, 0.4, 0.5 and 1.5 % (one s.e.).
    _, seen = theory_seen_ms(utilisation)
    assert response_quantile(utilisation, 0.99) == pytest.approx(exact, abs=5e-4)
    assert seen == pytest.approx(exact, rel=band)


# --- Q3 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("utilisation", "mean_band", "p99_band"), one_in(2, [(0.8, 0.03, 0.05), (0.5, 0.01, 0.02)])
)
def test_service_that_varies_is_m_m_1(
    utilisation: float, mean_band: float, p99_band: float
) -> None:
    # Bands are three s.e. over two million arrivals: 0.2 and 0.7 % of the mean, 0.4 and 1.4 %.
    generator = np.random.default_rng(3)
    services = generator.exponential(MS, MILLION).astype(np.int64)
    runs = [responses_ms(utilisation, seed, services_ns=services) for seed in (1, 2)]
    assert np.mean(runs) == pytest.approx(1 / (1 - utilisation), rel=mean_band)
    p99 = np.mean([np.quantile(found, 0.99) for found in runs])
    assert p99 == pytest.approx(math.log(100) / (1 - utilisation), rel=p99_band)


@pytest.mark.parametrize("servers", one_in(2, [2, 4, 8]))
def test_servers_side_by_side_are_m_d_c(servers: int) -> None:
    # At 0.8 over half a million arrivals the mean scatters by less than 0.6 %, p99 by 1.5 %.
    found = responses_ms(0.8, 1, servers=servers, count=MILLION // 2)
    assert found.mean() == pytest.approx(mean_response(0.8, servers), rel=0.02)
    exact = response_quantile(0.8, 0.99, servers)
    assert np.quantile(found, 0.99) == pytest.approx(exact, rel=0.045)


@pytest.mark.parametrize("servers", one_in(2, [2, 4, 8]))
def test_threads_are_that_queue_to_the_nanosecond(servers: int) -> None:
    due = schedule(0.9, 4000, 5, servers=servers)
    clock = Lockstep(servers=servers)
    line = LockstepLine(due.tolist(), clock)
    served = serve(line, [lambda: MS] * servers, clock, servers=servers, max_batch=1)
    ended = np.asarray(served.started_ns) + MS
    np.testing.assert_array_equal(ended, completions_ns(due, np.full(4000, MS), servers))


def batches_by_hand(
    due: NDArray[np.int64], most: int, cost_ns: Callable[[int], int]
) -> NDArray[np.int64]:
    """Responses of one server that takes all who wait, up to so many, whenever it is free."""
    free, first, ended = 0, 0, []
    while first < due.size:
        start = max(free, int(due[first]))
        last = first + 1
        while last < min(first + most, due.size) and due[last] <= start:
            last += 1
        free = start + cost_ns(last - first)
        ended += [free] * (last - first)
        first = last
    return np.asarray(ended) - due


@pytest.mark.parametrize("utilisation", [0.7, 2.5])
def test_a_server_of_batches_is_its_reference(utilisation: float) -> None:
    clock = BatchingClock(drain_ns=800_000)
    scenario = Server(rate_per_s=1000 * utilisation, duration_s=4, max_batch=8, seed=2)
    served = only(run(scenario, constant(clock, 0.2), clock))
    expected = batches_by_hand(served.due_ns, 8, lambda size: 800_000 + 200_000 * size)
    np.testing.assert_array_equal(served.response_ns, expected)
    assert disagreement_ratio(served) == 0.0
    sizes = np.unique(served.started_ns, return_counts=True)[1]
    assert sizes.max() == 8 or utilisation < 1


# --- Q4 -------------------------------------------------------------------------------------------


def stalling(clock: QuickClock) -> Callable[[], object]:
    """A millisecond, and two hundred at every five hundredth call."""
    return varying(clock, (200 * MS if n % 500 == 499 else MS for n in range(10**6)))


def test_a_stall_delays_all_who_come_while_it_lasts() -> None:
    clock = QuickClock()
    observed = run(Server(rate_per_s=450, duration_s=110, seed=1), stalling(clock), clock)
    p99 = load_metrics([process(observed)])["response_ms/p99"]
    # Without its variation the schedule has 197 ms; fifty thousand arrivals scatter by about 3.
    assert p99.value == pytest.approx(197, abs=10)
    assert p99.value > 150


def test_a_closed_loop_does_not_see_it() -> None:
    clock = QuickClock()
    closed = SingleStream().run(
        [stalling(clock)],
        clock=clock,
        calibration=clock.calibrate(),
        stopping=Fixed(calls=20_000),
        items_per_call=1,
    )
    assert np.quantile(closed.durations_ns, 0.99) == MS


# --- Q5 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("utilisation", one_in(2, [0.9, 0.5]))
def test_live_the_run_is_its_own_replay(utilisation: float) -> None:
    clock, ends = CpuClock(), list[int]()

    def call() -> None:
        until_ns = clock.now_ns() + 2 * MS
        while clock.now_ns() < until_ns:
            pass
        ends.append(clock.now_ns())

    began_ns = clock.now_ns()
    scenario = Server(rate_per_s=500 * utilisation, duration_s=1, min_queries=0, seed=7)
    observed = scenario.run(
        [call],
        clock=clock,
        calibration=clock.calibrate(),
        stopping=Fixed(),
        items_per_call=1,
    )
    served = only(observed)
    assert disagreement_ratio(served) < 0.001
    assert replay(served).mean() == pytest.approx(served.response_ns.mean(), rel=0.001)
    # An independent witness: the calls' own record of when they were done.
    offsets = np.asarray(ends) - served.ended_ns
    origin_ns = float(np.median(offsets))
    assert began_ns < origin_ns < min(ends)
    assert np.median(np.abs(offsets - origin_ns)) < MS // 10
    assert (served.started_ns >= served.due_ns).all()


def test_without_lateness_the_replay_differs_and_with_it_it_does_not() -> None:
    served = only(run(Server(rate_per_s=700, duration_s=10, seed=1), clock=QuickClock(late_ns=MS)))
    punctual = completions_ns(served.due_ns, served.duration_ns, 1) - served.due_ns
    assert punctual.mean() < 0.95 * served.response_ns.mean()
    assert disagreement_ratio(served) == 0.0


@pytest.mark.parametrize("fault", ["served before it was due", "two at once by one server"])
def test_a_series_that_cannot_be_is_found_out(fault: str) -> None:
    observed = run(Server(rate_per_s=700, duration_s=5, seed=1))
    assert not any("contradict" in doubt for doubt in load_warnings([process(observed)]))
    shift = -500_000 if fault.startswith("served") else 0
    started = [start + (shift if n % 2 else 0) for n, start in enumerate(observed.started_ns)]
    taking = 1 if shift else 3
    wrong = replace(
        observed,
        started_ns=tuple(started),
        durations_ns=tuple(taking * duration for duration in observed.durations_ns),
    )
    assert disagreement_ratio(only(wrong)) > 0.001
    assert "contradict" in load_warnings([process(wrong)])[0]


# --- Q6 -------------------------------------------------------------------------------------------


def test_a_late_generator_is_told_and_hides_nothing() -> None:
    scenario = Server(rate_per_s=70, duration_s=120, seed=1)
    prompt, late = QuickClock(), QuickClock(late_ns=MS)
    on_time = run(scenario, constant(prompt, 10.0), prompt)
    delayed = run(scenario, constant(late, 10.0), late)
    assert delayed.scheduled_ns == on_time.scheduled_ns
    assert (only(delayed).response_ns >= only(on_time).response_ns).all()
    assert int(np.quantile(lateness_ns(only(delayed)), 0.99)) == MS
    for name in ("response_ms/p50", "response_ms/p99"):
        told = load_metrics([process(delayed)])[name].value
        assert told == pytest.approx(load_metrics([process(on_time)])[name].value, rel=0.1)
    assert not any("Generator" in doubt for doubt in load_warnings([process(on_time)]))
    assert any("Generator limited" in doubt for doubt in load_warnings([process(delayed)]))


# --- Q7 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        ("poisson", "c02af9d140a3ad25"),
        ("constant", "1af1b48a864e88a5"),
        ("bursty", "f12fd3bbbcefb50e"),
    ],
)
def test_a_seed_is_one_schedule_everywhere(kind: Kind, digest: str) -> None:
    due = Arrivals(kind=kind).due_ns(10_000, 300.0, 11)
    again = Arrivals(kind=kind).due_ns(10_000, 300.0, 11)
    other = Arrivals(kind=kind).due_ns(10_000, 300.0, 12)
    told = hashlib.sha256(np.asarray(due, dtype="<i8").tobytes()).hexdigest()
    assert due == again
    assert (due == other) is (kind == "constant")
    assert told.startswith(digest)


@pytest.mark.parametrize("seed", one_in(3, [1, 2, 3]))
def test_poisson_gaps_are_exponential_at_the_rate_asked_for(seed: int) -> None:
    due = np.asarray(Arrivals().due_ns(100_000, 250.0, seed))
    gaps_s = np.diff(due, prepend=0) / 1e9
    # One seed in a hundred would fail; these are fixed.
    assert stats.kstest(gaps_s, "expon", args=(0, 1 / 250)).pvalue > 0.01
    assert abs(gaps_s.mean() * 250 - 1) < 3 / math.sqrt(100_000)


@pytest.mark.parametrize("cv", one_in(2, [1.0, 2.0, 5.0]))
def test_bursty_gaps_have_the_variation_asked_for(cv: float) -> None:
    due = np.asarray(Arrivals(kind="bursty", cv=cv).due_ns(1_000_000, 1000.0, 1))
    gaps = np.diff(due)
    # Bursts of a hundred queries: a million hold some ten thousand, which scatter by about 1 %.
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.04)
    assert gaps.mean() == pytest.approx(1e6, rel=0.04)


# --- Q8 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("utilisation", "grows"), [(1.05, True), (0.98, False)])
def test_overload_is_told_from_a_busy_queue(utilisation: float, grows: bool) -> None:
    # At 95 % right, forty seeds scatter by 1.4 (one s.e.); 38 is asked of them all the same.
    right = 0
    for seed in range(40):
        due = schedule(utilisation, 100_000, seed)
        spent = np.full(due.size, MS, dtype=np.int64)
        started = completions_ns(due, spent, 1) - spent
        right += overloaded(queue(due, started, spent)) is grows
    assert right >= 38


def test_an_overloaded_trial_has_no_quantiles_of_responses() -> None:
    observed = run(Server(rate_per_s=1050, duration_s=20, seed=1))
    metrics = load_metrics([process(observed)])
    assert not [name for name in metrics if name.startswith(("response", "queueing"))]
    assert metrics["achieved_per_s/mean"].value < 0.99 * metrics["offered_per_s/mean"].value
    assert load_warnings([process(observed)])[0].startswith("Unstable")


def test_a_rate_far_beyond_reach_is_given_up_in_time() -> None:
    clock = QuickClock()
    observed = run(Server(rate_per_s=20_000, duration_s=10, seed=1), clock=clock)
    assert clock.true_ns < 25e9
    assert observed.loads[-1].unserved > 100_000
    assert "given up" in load_warnings([process(observed)])[0]


# --- Q9 -------------------------------------------------------------------------------------------

BEST_RATE = 773.5
"""At which p99 of M/D/1 with a millisecond of service is ten milliseconds."""


def plain_bisection(seed: int, length: int) -> tuple[float, int]:
    """A binary search that trusts each probe of full length: its answer, and calls used."""
    low, high, used = 0.0, 1.0, 0
    while high - low > 0.03 * high:
        middle = (low + high) / 2
        found = responses_ms(middle, seed * 100 + used // length, count=length)
        low, high = (middle, high) if (found > 10).mean() <= 0.01 else (low, middle)
        used += length
    return 1000 * (low + high) / 2, used


def test_the_search_finds_the_highest_rate_with_fewer_calls() -> None:
    assert response_quantile(BEST_RATE / 1000, 0.99) == pytest.approx(10, rel=1e-3)
    found, used = [], []
    for seed in range(6):
        scenario = PeakRate(
            target_ms=10, width_ratio=0.06, budget_s=1000, duration_s=1, min_queries=0, seed=seed
        )
        observed = run(scenario)
        peak = peak_of(observed)
        assert peak is not None
        found.append(peak.value)
        used.append(len(observed.durations_ns))
    close = np.abs(np.asarray(found) / BEST_RATE - 1) < 0.03
    plain = [plain_bisection(seed, 40_000) for seed in range(6)]
    # To 6 % instead of 3 %, for speed: nine in ten are as close, and six searches scatter by twelve
    # points. In full, benchmarks/queueing.py has 95 % of 40 searches to 6 % within 3 %, and 57 % of
    # the calls of a bisection that is as accurate.
    assert close.mean() >= 0.8
    assert np.mean(used) <= 0.6 * np.mean([calls for _, calls in plain])


def test_a_target_below_the_service_time_ends_with_a_verdict() -> None:
    observed = run(PeakRate(target_ms=0.9, seed=1))
    assert peak_of(observed) is None
    assert {load.purpose for load in observed.loads} == {"capacity"}
    assert "target_rate_per_s/max" not in load_metrics([process(observed)])
    assert load_warnings([process(observed)])[0].startswith("No rate can be served within 0.9 ms")


# --- Q10 ------------------------------------------------------------------------------------------


def test_the_curve_rises_and_every_point_far_from_capacity_has_its_interval() -> None:
    processes = [
        process(
            run(ThroughputLatency(duration_s=8, fractions=(0.1, 0.5, 0.8, 0.9, 1.1), seed=seed))
        )
        for seed in (1, 2)
    ]
    points = load_points(processes)
    assert [point.utilisation_ratio for point in points] == [0.1, 0.5, 0.8, 0.9, 1.1]
    assert [point.unstable for point in points] == [False, False, False, False, True]
    for name in ("p50", "p99"):
        stable = [getattr(point, name) for point in points if not point.unstable]
        known = [found for found in stable if found is not None]
        # Near capacity eight seconds are too few correlation times for an interval.
        assert known == stable[: len(known)]
        assert len(known) >= 2
        for end in ("low", "value", "high"):
            levels = [getattr(found, end) for found in known]
            assert levels == sorted(levels)
        assert all(found.low <= found.value <= found.high for found in known)
    assert points[-1].p50 is points[-1].p99 is None


# --- I3 -------------------------------------------------------------------------------------------


MLPERF = {
    0: {0.9: 44, 0.95: 90, 0.97: 152, 0.99: 459, 0.999: 4603},
    1: {0.9: 64, 0.95: 130, 0.97: 219, 0.99: 662, 0.999: 6636},
}
"""By violations and quantile: queries from which on MLPerf calls it within its target."""


@pytest.mark.parametrize("violations", MLPERF)
@pytest.mark.parametrize("ratio", MLPERF[0])
def test_the_slo_is_met_from_as_many_queries_on_as_in_mlperf(ratio: float, violations: int) -> None:
    needed = MLPERF[violations][ratio]
    enough = ExceedanceCount(violations=violations, queries=needed)
    one_less = ExceedanceCount(violations=violations, queries=needed - 1)
    half = ExceedanceCount(violations=0.5 * needed, queries=needed)
    assert kept(enough, ratio) is TargetStatus.MET
    assert kept(one_less, ratio) is TargetStatus.UNDECIDED
    assert kept(half, ratio) is TargetStatus.MISSED


def test_bit_identical_on_a_second_look() -> None:
    observed = run(PeakRate(target_ms=10, budget_s=20, duration_s=5, seed=1))
    assert load_metrics([process(observed)]) == load_metrics([process(observed)])
    assert sum(s.due_ns.size for s in stretches(observed)) == len(observed.durations_ns)
