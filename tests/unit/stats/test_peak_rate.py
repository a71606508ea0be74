"""What probes at several rates say of the highest one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchorch.stats.binomial_bound import Target
from benchorch.stats.peak_rate import Probe, belief, bracketed, never, probe
from benchorch.stats.queueing import completions_ns
from support.ideal_queue import response_quantile
from support.load_runs import queue, schedule
from support.slices import only

MS = 1_000_000
TARGET = Target(target_ms=10.0, quantile_ratio=0.99)


def seen(rate_per_s: float, violations: int, queries: int, time: float = 1.0) -> Probe:
    return Probe(rate_per_s=rate_per_s, violations=violations, queries=queries, time=time)


def test_before_any_probe_rates_are_half_as_likely_each_and_half_their_logarithms() -> None:
    found = belief([], 1000.0, 0.99)
    assert found.low < 3
    assert found.value == pytest.approx(271, rel=0.02)
    assert found.high == pytest.approx(1130, rel=0.02)


@pytest.mark.parametrize("slope", only([0.3, 40.0], [0.3, 1.0, 3.0, 17.0, 40.0]))
def test_the_interval_holds_the_rate_however_steeply_violations_rise(slope: float) -> None:
    """Whatever a probe far above it counted: at low utilisation the slope is about 1."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(20):
        rates = 50.0 * np.exp(rng.uniform(-1.5, 3.0, 12) / max(slope, 1.0))
        shares = 1.0 / (1.0 + 99.0 * (50.0 / rates) ** slope)
        probes = [
            seen(rate, int(rng.binomial(3000, share)), 3000)
            for rate, share in zip(rates.tolist(), shares.tolist(), strict=True)
        ]
        found = belief(probes, 1000.0, 0.99, 0.95)
        held += found.low <= 50.0 <= found.high
    assert held >= 17


def test_many_probes_far_above_do_not_overrule_those_near_it() -> None:
    """M/D/1 with a target at half a service time of waiting: the slope is 1, and rises to 10."""
    rates = [10.0, 20.0, *range(500, 1000, 25)]
    shares = [rate / 1000.0 for rate in rates]
    probes = [
        seen(rate, round(600 * share), 600) for rate, share in zip(rates, shares, strict=True)
    ]
    found = belief(probes, 1000.0, 0.99, 0.95)
    assert found.low <= 10.0 <= found.high < 20.0


def test_beyond_the_rates_that_were_offered_an_end_is_open() -> None:
    never_late = [seen(100, 0, 2000), seen(300, 0, 2000)]
    patient = bracketed(never_late, 1000.0, 0.99)
    assert math.isinf(patient.high)
    assert 280 < patient.low <= patient.value <= 300
    always_late = [seen(100, 400, 2000), seen(300, 900, 2000)]
    strict = bracketed(always_late, 1000.0, 0.99)
    assert strict.low == pytest.approx(1.0)
    assert strict.high < 100
    between = bracketed([*never_late, seen(600, 300, 2000)], 1000.0, 0.99)
    assert 280 < between.low < between.high < 600


def test_an_end_next_to_the_highest_rate_considered_is_open() -> None:
    at_capacity = bracketed([seen(1000, 0, 900, time=300.0)], 1000.0, 0.99)
    assert math.isinf(at_capacity.high)
    assert at_capacity.value <= 1000


def test_a_lucky_probe_weighs_no_more_than_an_unlucky_one_at_a_like_rate() -> None:
    alone = belief([seen(600, 0, 3000, time=5.0), seen(601, 60, 3000, time=50.0)], 1e3, 0.99)
    alike = belief([seen(600, 0, 3000, time=50.0), seen(601, 60, 3000, time=50.0)], 1e3, 0.99)
    swapped = belief([seen(601, 0, 3000, time=5.0), seen(600, 60, 3000, time=50.0)], 1e3, 0.99)
    assert swapped.value == pytest.approx(
        belief([seen(601, 0, 3000, 27.5), seen(600, 60, 3000, 27.5)], 1e3, 0.99).value
    )
    assert alone.value > alike.value


def test_violations_lower_and_their_absence_raises_what_is_believed() -> None:
    before = belief([], 1000.0, 0.99)
    assert belief([seen(600, 200, 2000)], 1000.0, 0.99).high < 600
    assert belief([seen(600, 0, 2000)], 1000.0, 0.99).low > 590
    assert before.low < belief([seen(600, 20, 2000)], 1000.0, 0.99).low < 600


def test_correlated_queries_weigh_less() -> None:
    sure = belief([seen(600, 20, 2000)], 1000.0, 0.99)
    less = belief([seen(600, 20, 2000, time=20.0)], 1000.0, 0.99)
    assert less.width_ratio > sure.width_ratio


def test_belief_does_not_depend_on_the_order_of_probes_and_scales_with_rates() -> None:
    probes = [seen(500, 3, 2000), seen(700, 40, 2000), seen(620, 18, 4000)]
    found = belief(probes, 1000.0, 0.99, 0.95)
    other = belief(probes[::-1], 1000.0, 0.99)
    assert other.value == pytest.approx(found.value)
    tenfold = [seen(10 * p.rate_per_s, p.violations, p.queries) for p in probes]
    assert belief(tenfold, 10_000.0, 0.99).value == pytest.approx(10 * found.value)


def test_the_interval_holds_the_answer_of_a_known_queue() -> None:
    held = []
    for seed in range(20):
        rates = (700.0, 740.0, 770.0, 800.0)
        found = belief(
            [probed(rate, 20_000, 10 * seed + n) for n, rate in enumerate(rates)], 1e3, 0.99
        )
        held.append(found.low <= 773.5 <= found.high)
    assert response_quantile(0.7735, 0.99) == pytest.approx(10, rel=1e-3)
    # Nominally 90 %: twenty searches hold it less often than this once in 90 times.
    assert np.mean(held) >= 0.75


def probed(rate_per_s: float, count: int, seed: int) -> Probe:
    due = schedule(rate_per_s / 1000, count, seed)
    spent = np.full(count, MS, dtype=np.int64)
    stretch = queue(due, completions_ns(due, spent, 1) - spent, spent)
    found = probe(stretch, TARGET)
    return seen(rate_per_s, found.violations, found.queries, found.time)


def test_an_overloaded_probe_says_no_however_patient_the_target() -> None:
    due = schedule(1.2, 5000, 1)
    spent = np.full(5000, MS, dtype=np.int64)
    stretch = queue(due, completions_ns(due, spent, 1) - spent, spent)
    patient = Target(target_ms=1e6, quantile_ratio=0.99)
    assert probe(stretch, patient).violations == probe(stretch, patient).queries


@pytest.mark.parametrize(("slow", "refused"), [(0, False), (10, False), (100, True)])
def test_service_alone_above_the_target_is_never_served(slow: int, refused: bool) -> None:
    due = np.arange(1000, dtype=np.int64) * 20 * MS
    spent = np.full(1000, MS, dtype=np.int64)
    spent[-slow or 1000 :] = 15 * MS
    assert never(queue(due, due, spent), TARGET) is refused
