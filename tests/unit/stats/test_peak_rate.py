"""What probes at several rates say of the highest one."""

from __future__ import annotations

import numpy as np
import pytest

from benchorch.stats.binomial_bound import Target
from benchorch.stats.peak_rate import Probe, belief, never, probe
from benchorch.stats.queueing import completions_ns
from support.ideal_queue import response_quantile
from support.load_runs import queue, schedule

MS = 1_000_000
TARGET = Target(target_ms=10.0, quantile_ratio=0.99)


def seen(rate_per_s: float, violations: int, queries: int, time: float = 1.0) -> Probe:
    return Probe(rate_per_s=rate_per_s, violations=violations, queries=queries, time=time)


def test_before_any_probe_every_rate_up_to_the_most_is_as_likely() -> None:
    found = belief([], 1000.0, 0.99)
    assert found.value == pytest.approx(625, rel=0.01)
    assert found.low == pytest.approx(0.05 * 1250, rel=0.03)
    assert found.high == pytest.approx(0.95 * 1250, rel=0.01)


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
    found = belief(probes, 1000.0, 0.99)
    other = belief(probes[::-1], 1000.0, 0.99)
    assert other.value == pytest.approx(found.value)
    tenfold = [seen(10 * p.rate_per_s, p.violations, p.queries) for p in probes]
    assert belief(tenfold, 10_000.0, 0.99).value == pytest.approx(10 * found.value)


def test_the_interval_holds_the_answer_of_a_known_queue() -> None:
    held = []
    for seed in range(40):
        rates = (700.0, 740.0, 770.0, 800.0)
        found = belief(
            [probed(rate, 20_000, 10 * seed + n) for n, rate in enumerate(rates)], 1e3, 0.99
        )
        held.append(found.low <= 773.5 <= found.high)
    assert response_quantile(0.7735, 0.99) == pytest.approx(10, rel=1e-3)
    # Nominally 90 %; forty searches scatter by 4.7 points (one s.e.).
    assert np.mean(held) >= 0.78


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
