"""Sums of estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.estimate import Estimate
from benchorch.stats.interval_arithmetic import quotient, scaled, total

SIZES = st.floats(0.0, 1e6)


def estimate(value: float, below: float | None = None, above: float | None = None) -> Estimate:
    return Estimate(
        value=value,
        low=None if below is None else value - below,
        high=None if above is None else value + above,
        level_ratio=0.95,
        n=5,
        unit="ms",
        method="told",
    )


PARTS = st.builds(estimate, SIZES, SIZES, SIZES)


def certain(parts: Sequence[Estimate]) -> tuple[float, float, float]:
    """The sum with its interval, which it must have."""
    found = total(parts)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.low, found.value, found.high


def test_nothing_has_no_sum_and_one_part_is_the_sum() -> None:
    assert total([]) is None
    assert total([estimate(3.0, 1.0, 2.0)]) == estimate(3.0, 1.0, 2.0)


def test_a_multiple_below_zero_exchanges_the_ends() -> None:
    found = scaled(estimate(10.0, 3.0, 5.0), -2.0)
    assert (found.value, found.low, found.high) == (-20.0, -30.0, -14.0)


def test_the_values_seen_are_of_the_new_quantity() -> None:
    observed = replace(estimate(4.0), seen=(2.0, 5.0))
    assert scaled(observed, 10.0).seen == (20.0, 50.0)
    assert scaled(observed, -10.0).seen == (-50.0, -20.0)
    assert quotient(10.0, observed).seen == (2.0, 5.0)
    assert quotient(20.0, observed).seen == (4.0, 10.0)
    assert quotient(20.0, replace(observed, seen=(-1.0, 5.0))).seen is None


@pytest.mark.parametrize(("below", "high"), [(2.0, 5.0), (4.0, None)])
def test_a_quotient_has_no_largest_value_where_its_divisor_may_be_nothing(
    below: float, high: float | None
) -> None:
    found = quotient(10.0, estimate(4.0, below, 1.0))
    assert (found.value, found.low, found.high) == (2.5, 2.0, high)


def test_distances_are_added_in_quadrature_each_side_on_its_own() -> None:
    found = total([estimate(10.0, 3.0, 5.0), estimate(20.0, 4.0, 12.0)])
    assert found is not None
    assert (found.value, found.low, found.high) == (30.0, 25.0, 43.0)


@given(st.lists(PARTS, min_size=2, max_size=6))
def test_the_interval_is_as_wide_as_the_widest_part_and_no_wider_than_all_ends_added(
    parts: list[Estimate],
) -> None:
    low, value, high = certain(parts)
    slack = 1e-6 * (1 + value)
    assert low <= value <= high
    assert high - value >= max(p.high - p.value for p in parts) - slack  # type: ignore[operator]
    assert high <= math.fsum(p.high for p in parts) + slack  # type: ignore[misc]


@given(st.permutations([estimate(1.0, 0.5, 0.1), estimate(2.0, 0.2, 0.3), estimate(4.0, 1.0, 1.0)]))
def test_the_order_does_not_matter(parts: list[Estimate]) -> None:
    assert certain(parts) == pytest.approx(certain(sorted(parts, key=lambda each: each.value)))


def test_a_part_without_an_interval_leaves_the_sum_without_one() -> None:
    found = total([estimate(1.0, 0.1, 0.1), estimate(2.0)])
    assert found is not None
    assert (found.value, found.low, found.high) == (3.0, None, None)


@given(PARTS, st.floats(0.0, 100.0))
def test_a_multiple_keeps_its_shape(part: Estimate, factor: float) -> None:
    found = scaled(part, factor)
    assert found.value == part.value * factor
    assert found.low == part.low * factor  # type: ignore[operator]
    assert found.high == part.high * factor  # type: ignore[operator]


def test_the_sum_of_two_normal_means_is_covered_as_often_as_it_says() -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        a, b = rng.normal(5.0, 1.0), rng.normal(3.0, 2.0)
        low, _, high = certain([estimate(a, 1.96, 1.96), estimate(b, 3.92, 3.92)])
        covered += low <= 8.0 <= high
    assert 0.93 < covered / 2000 < 0.97
