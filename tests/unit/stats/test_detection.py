from __future__ import annotations

import math

import numpy as np
import pytest

from benchorch.stats.detection import (
    by_mean,
    by_median,
    found_by_pairs,
    smallest_apart,
    smallest_by_pairs,
)

RNG_SEED = 5


def pairs(mean: float, sd: float, n: int = 400) -> list[float]:
    return list(mean + sd * np.random.default_rng(RNG_SEED).standard_normal(n))


def test_identical_work_is_called_different_as_often_as_the_level_says() -> None:
    found = found_by_pairs(pairs(0.0, 0.02), 8)
    assert found is not None
    assert 0.01 <= found.slower + found.faster <= 0.1


def test_more_work_is_found_in_the_direction_in_which_it_is() -> None:
    found = found_by_pairs(pairs(0.05, 0.01), 8)
    assert found == (1.0, 0.0)


def test_more_pairs_than_there_are_show_nothing() -> None:
    assert found_by_pairs(pairs(0.0, 0.01, n=7), 8) is None


@pytest.mark.parametrize("n", [5, 12, 27])
@pytest.mark.parametrize("test", [by_mean, by_median])
def test_the_smallest_difference_is_found_in_nine_of_ten_cases(n: int, test) -> None:
    noise = pairs(0.0, 0.02, n=4000)
    share = smallest_by_pairs([noise], n, test)
    assert share is not None
    fresh = np.random.default_rng(9).standard_normal(4000)
    found = found_by_pairs([math.log1p(share) + 0.02 * value for value in fresh], n, test)
    assert found is not None
    assert found.slower == pytest.approx(0.9, abs=0.06)


def test_a_few_pairs_that_are_far_off_blind_a_mean_and_hardly_a_median() -> None:
    noise = [
        value + (0.5 if place % 20 == 0 else 0.0) for place, value in enumerate(pairs(0.0, 0.01))
    ]
    mean, median = (smallest_by_pairs([noise], 12, test) for test in (by_mean, by_median))
    assert mean is not None
    assert median is not None
    assert median < 0.02 < mean


def test_groups_with_other_ratios_have_one_spread() -> None:
    noise = pairs(0.0, 0.02)
    shifted = [0.3 + value for value in noise]
    assert smallest_by_pairs([noise, shifted], 8) == pytest.approx(
        smallest_by_pairs([noise], 8), rel=0.15
    )


def test_fewer_pairs_than_a_comparison_has_show_nothing() -> None:
    assert smallest_by_pairs([[0.1], [0.2]], 8) is None


def test_what_the_machine_changes_by_between_two_stretches_counts() -> None:
    calm = pairs(0.0, 0.001, n=60)
    stepped = [value + 0.05 * (place >= 30) for place, value in enumerate(calm)]
    still, moved = smallest_apart(calm, 8), smallest_apart(stepped, 8)
    assert still is not None
    assert moved is not None
    assert still < 0.005
    assert moved > 0.05
    assert smallest_apart(calm[:17], 8) is None
