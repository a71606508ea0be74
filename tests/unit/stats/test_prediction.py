"""The interval of a repetition: its formula, its coverage, and where there is none."""

import math

import numpy as np
import pytest

from benchorch.stats.prediction import repetition_interval


def test_it_is_hahn_and_meekers_on_logarithms():
    # Hahn and Meeker (1991), the example of their chapter 4: five devices, mean 50.10, s 1.31;
    # the mean of ten more lies, with 95 %, in 50.10 +- 2.776 * 1.31 * sqrt(1/5 + 1/10).
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=5)
    logs = 50.10 + 1.31 * (drawn - drawn.mean()) / drawn.std(ddof=1)
    found = repetition_interval(np.exp(logs / 100).tolist(), 10, unit="ms")
    reach = 2.776 * 1.31 * math.sqrt(1 / 5 + 1 / 10)
    ends = 100 * math.log(found.low), 100 * math.log(found.high)
    assert ends == pytest.approx((50.10 - reach, 50.10 + reach), abs=1e-3)


@pytest.mark.parametrize(("first", "again"), [(3, 3), (10, 10), (5, 20)])
def test_it_holds_in_19_of_20_repetitions(first, again):
    rng = np.random.default_rng(first)
    draws, held = 2000, 0
    for _ in range(draws):
        interval = repetition_interval(rng.lognormal(0, 0.1, first).tolist(), again, unit="ms")
        held += interval.low <= math.exp(rng.normal(0, 0.1, again).mean()) <= interval.high
    assert abs(held / draws - 0.95) < 4 * math.sqrt(0.95 * 0.05 / draws)


def test_the_margin_moves_both_ends_outwards():
    plain = repetition_interval([1.0, 1.1, 1.2], 3, unit="ms")
    wide = repetition_interval([1.0, 1.1, 1.2], 3, unit="ms", margin_ratio=0.1)
    assert wide.high == pytest.approx(1.1 * plain.high)
    assert wide.low == pytest.approx(plain.low / 1.1)
    assert wide.value == plain.value


def test_one_process_has_no_interval():
    found = repetition_interval([2.0], 5, unit="ms")
    assert (found.value, found.low, found.high) == (2.0, None, None)


@pytest.mark.parametrize("values", [[], [0.0, 1.0], [-1.0], [math.nan], [math.inf]])
def test_what_is_not_positive_has_none(values):
    assert repetition_interval(values, 5, unit="ms") is None
    assert repetition_interval([1.0, 2.0], 0, unit="ms") is None
