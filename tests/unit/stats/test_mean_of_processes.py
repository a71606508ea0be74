from __future__ import annotations

import math

import pytest
from scipy import stats

from benchorch.stats.mean_of_processes import mean

VALUES = [3.0, 5.0, 4.0, 9.0]


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_a_mean_has_students_interval(alpha: float) -> None:
    found = mean(VALUES, of="loads", unit="s", alpha=alpha)
    assert found is not None
    low, high = stats.t.interval(1 - alpha, 3, loc=5.25, scale=stats.sem(VALUES))
    assert (found.value, found.low, found.high) == pytest.approx((5.25, low, high))
    assert (found.n, found.unit, found.method) == (4, "s", "mean of loads; t")


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    found = mean([2.5], of="loads", unit="s")
    assert found is not None
    assert (found.value, found.low, found.high, found.n) == (2.5, None, None, 1)
    two = mean([1.0, 3.0], of="loads", unit="s")
    assert two is not None
    assert two.high == pytest.approx(2 + math.tan(math.pi * 0.475))  # a t of one degree is Cauchy's
    assert mean([], of="loads", unit="s") is None
