"""The interval of a median against its definition, and what it promises of scales and gaps."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.stats.median_interval import GAP_RATIO, LEAST_VALUES, median_interval

EVEN = (6, 7, 8, 9, 10, 15, 20, 31)


def outside(n: int, rank: int) -> float:
    """How often the median of a population is not between the rank-th values from both ends."""
    return 2 * sum(math.comb(n, k) for k in range(rank)) / 2**n


def by_definition(n: int, alpha: float) -> float:
    """Where the lower end lies among n values that are 0, 1, 2, ..."""
    rank = max(r for r in range(1, n // 2 + 1) if outside(n, r) <= alpha)
    if rank + 1 > n // 2:
        return rank - 1
    wide, narrow = 1 - outside(n, rank), 1 - outside(n, rank + 1)
    share = (wide - (1 - alpha)) / (wide - narrow)
    return rank - 1 + (n - rank) * share / (rank + (n - 2 * rank) * share)


@pytest.mark.parametrize("n", EVEN)
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_it_lies_between_the_order_statistics_of_its_error_rate(n: int, alpha: float) -> None:
    values = [float(k - n) for k in range(n)]  # below 0, so on no logarithms
    found = median_interval(values[::-1], alpha)
    if outside(n, 1) > alpha:
        assert found is None
        return
    low = by_definition(n, alpha)
    assert found == pytest.approx((low - n, n - 1 - low - n))


def test_few_values_have_none() -> None:
    for n in range(LEAST_VALUES):
        assert median_interval([1.0] * n) is None
    assert median_interval([1.0] * 7, 0.0115) is None
    assert median_interval([1.0] * 8, 0.0115) is not None
    assert median_interval([1.0] * LEAST_VALUES, 0.04) is None


def test_of_five_values_it_is_the_range_and_a_little_more() -> None:
    assert median_interval([-1.0, 0.0, 4.0, 7.0, 9.0]) == pytest.approx((-1.6, 9.6))
    low, high = 2 * 4**-0.06, 8 * 4**0.06
    assert median_interval([4.0, 2.0, 8.0, 5.0, 6.0]) == pytest.approx((low, high))
    assert median_interval([3.0] * 5) == (3.0, 3.0)
    assert median_interval([0.0, 0.0, 0.0, 0.01, 0.02]) == pytest.approx((0.0, 0.0212))


LISTS = st.lists(st.floats(0.1, 1000), min_size=5, max_size=30)


@given(values=LISTS, scale=st.floats(0.01, 100))
def test_scaling_the_values_scales_it(values: list[float], scale: float) -> None:
    found, scaled = median_interval(values), median_interval([scale * one for one in values])
    assert found is not None
    assert scaled == pytest.approx([scale * end for end in found], rel=1e-6)


@given(values=LISTS)
def test_inverting_the_values_inverts_it(values: list[float]) -> None:
    found, inverted = median_interval(values), median_interval([1 / one for one in values])
    assert found is not None
    assert inverted is not None
    assert inverted == pytest.approx([1 / found[1], 1 / found[0]], rel=1e-6)


@given(values=LISTS, shift=st.floats(-5000, -1001))
def test_mirroring_values_below_0_mirrors_it(values: list[float], shift: float) -> None:
    found = median_interval([shift + one for one in values])
    mirrored = median_interval([shift + 1000 - one for one in values])
    assert found is not None
    assert mirrored is not None
    both = 2 * shift + 1000
    assert mirrored == pytest.approx([both - found[1], both - found[0]])


@pytest.mark.parametrize("sign", [1, -1])
def test_across_a_gap_the_outer_value_stands(sign: int) -> None:
    """Of ten values the ends lie between the second and the third from either end."""
    plain = [100.0, 101, 102, 103, 104, 105, 106, 107, 108, 109]
    low, high = median_interval(plain) or (0, 0)
    assert 101 < low < 102
    assert 107 < high < 108
    gap = plain[:2] + [one + 100 for one in plain[2:]]
    found = median_interval([sign * one for one in gap])
    assert found is not None
    assert min(map(abs, found)) == 101


def test_a_step_is_a_gap_by_its_share_of_the_range_or_of_what_is_left() -> None:
    def inside(values: Sequence[float]) -> bool:
        """Whether the lower end is beyond the second value."""
        found = median_interval([one - 1000 for one in values])
        assert found is not None
        return found[0] > sorted(values)[1] - 1000

    rest = [0.0, 1, 2, 3, 4, 5, 6, 7]
    whole = 100.0
    step = GAP_RATIO * whole
    for more, is_inside in ((-0.5, True), (0.5, False)):
        third = 2 + step + more
        assert inside([0, 2, third, *(50 + one for one in rest[:6]), whole]) == is_inside
    for step, is_inside in ((7.4, True), (7.6, False)):  # three times the way to the median: 2.5
        third = 2 + step
        others = [third + one for one in (2, 2.4, 2.6, 3, 4, 5)]
        assert inside([0, 2, third, *others, 1000]) == is_inside


def test_it_holds_the_median_as_often_as_it_says() -> None:
    dice = random.Random(0)
    for n in (5, 8, 10, 20):
        hits = 0
        for _ in range(1000):
            low, high = median_interval([dice.gauss(0, 1) for _ in range(n)]) or (0.0, 0.0)
            hits += low <= 0 <= high
        assert 0.93 < hits / 1000 < 0.98
