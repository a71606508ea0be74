"""Exact bounds on the share of responses above a target."""

from __future__ import annotations

import pytest
from scipy.stats import binom, binomtest

from benchorch.stats.binomial_bound import (
    ExceedanceCount,
    TargetStatus,
    kept,
    share_bounds,
)


@pytest.mark.parametrize(("violations", "queries"), [(0, 50), (3, 400), (50, 50), (12, 662)])
def test_bounds_are_those_of_clopper_and_pearson(violations: int, queries: int) -> None:
    low, high = share_bounds(ExceedanceCount(violations=violations, queries=queries))
    exact = binomtest(violations, queries).proportion_ci(0.98, method="exact")
    assert low == pytest.approx(exact.low)
    assert high == pytest.approx(exact.high)


def test_nothing_seen_decides_nothing() -> None:
    assert share_bounds(ExceedanceCount(violations=0, queries=0)) == (0.0, 1.0)
    assert kept(ExceedanceCount(violations=0, queries=0), 0.9) is TargetStatus.UNDECIDED


def test_a_model_at_its_target_rarely_passes() -> None:
    passing = [
        v
        for v in range(100)
        if kept(ExceedanceCount(violations=v, queries=3000), 0.99) is TargetStatus.MET
    ]
    assert binom.cdf(max(passing), 3000, 0.01) <= 0.01
