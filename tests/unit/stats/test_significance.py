from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.stats.significance import FLIPS, cliffs_delta, holm, sign_flip_p, student_p

# Whole numbers add up exactly, so that a tie is one.
differences = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=9)


def by_hand(values: Sequence[float]) -> float:
    """Every way to flip signs, one by one."""
    seen = abs(math.fsum(values))
    flips = itertools.product((1, -1), repeat=len(values))
    sums = [abs(math.fsum(s * x for s, x in zip(signs, values, strict=True))) for signs in flips]
    return sum(total >= seen for total in sums) / len(sums)


def test_six_differences_of_one_sign_are_the_fewest_that_reach_five_percent() -> None:
    assert sign_flip_p([1.0, 2, 3, 4, 5]) == 2 / 32
    assert sign_flip_p([1.0, 2, 3, 4, 5, 6]) == 2 / 64


@given(differences)
def test_all_ways_to_flip_are_counted(values: list[float]) -> None:
    assert sign_flip_p(values) == by_hand(values)


@pytest.mark.parametrize("n", [12, 20, 40])
def test_neither_order_nor_sign_matters(n: int) -> None:
    rng = np.random.default_rng(n)
    values = rng.normal(0.3, 1, n)
    p = sign_flip_p(values.tolist())
    assert sign_flip_p((-values).tolist()) == p
    assert sign_flip_p(rng.permutation(values).tolist()) == p


def test_random_flips_agree_with_all_of_them() -> None:
    values = np.random.default_rng(0).normal(0.4, 1, 20)
    # Twenty more that are nearly nothing change hardly a sum, but are too many to try all.
    more = [*values.tolist(), *[1e-9] * 20]
    assert sign_flip_p(more) == pytest.approx(sign_flip_p(values.tolist()), abs=0.01)


@pytest.mark.parametrize("values", [[], [0.0], [0.0] * 30, [1.0, -1.0]])
def test_what_adds_up_to_nothing_shows_nothing(values: list[float]) -> None:
    assert sign_flip_p(values) == 1.0


def test_without_a_difference_small_p_values_are_as_rare_as_they_say() -> None:
    rng = np.random.default_rng(0)
    share = np.mean([sign_flip_p(rng.standard_t(2, 10).tolist()) <= 0.05 for _ in range(2000)])
    # Two standard errors at 2000 are one percent.
    assert share <= 0.06


def test_students_p_is_the_known_one() -> None:
    # t(0.975, 9) = 2.262157.
    assert student_p(2.262157, 1.0, 9) == pytest.approx(0.05, abs=1e-6)
    assert student_p(0.0, 1.0, 9) == 1.0


def test_without_any_spread_a_difference_is_certain_and_none_is_none() -> None:
    assert student_p(1e-9, 0.0, 4) == 0.0
    assert student_p(0.0, 0.0, 4) == 1.0


def test_cliffs_delta_counts_who_is_below_whom() -> None:
    assert cliffs_delta([1, 2], [3, 4]) == 1.0
    assert cliffs_delta([3, 4], [1, 2]) == -1.0
    assert cliffs_delta([1, 2], [1, 2]) == 0.0
    assert cliffs_delta([1, 3], [2, 2]) == 0.0
    assert cliffs_delta([1, 1], [1, 2]) == 0.5


def test_holm_multiplies_the_smallest_by_all_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def test_student_s_p_is_the_tables() -> None:
    assert student_p(2.262157 * 3, 3, 9) == pytest.approx(0.05, abs=1e-6)
    assert student_p(-12.7062 * 0.2, 0.2, 1) == pytest.approx(0.05, abs=1e-5)


def test_the_unit_of_the_differences_does_not_matter() -> None:
    """Logarithms of ratios near 1 add up to far less than one."""
    values = [1.0, 2, -0.5, 3, 1, 2, 4, 1]
    assert sign_flip_p([1e-4 * value for value in values]) == sign_flip_p(values) < 1


@pytest.mark.parametrize("n", [24, 41])
def test_random_flips_count_the_one_that_was_seen(n: int) -> None:
    assert sign_flip_p([1.0] * n) == 1 / (1 + FLIPS)


def test_adjusted_p_values_are_at_most_one() -> None:
    assert holm([0.8, 0.9, 0.7]) == [1.0, 1.0, 1.0]
