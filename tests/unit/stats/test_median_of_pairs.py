from __future__ import annotations

import math

import numpy as np
import pytest

from benchorch.stats.median_of_pairs import median_of_pairs


def test_the_order_is_taken_out_of_every_pair() -> None:
    # Medians 3 where it came first and 1 where not: 1 is taken from the first and added to those.
    logs = [2.9, 3.0, 3.1, 0.9, 1.0, 1.1]
    found = median_of_pairs(logs, [True] * 3 + [False] * 3, alpha=0.05)
    assert found is not None
    assert math.log(found.value) == pytest.approx(2.0)


def test_a_few_pairs_that_are_far_off_hardly_move_it() -> None:
    logs = list(0.05 + 0.01 * np.random.default_rng(2).standard_normal(21))
    first = [place % 2 == 0 for place in range(21)]
    calm = median_of_pairs(logs, first, alpha=0.05)
    logs[3], logs[8], logs[11] = 0.6, -0.6, 0.5
    found = median_of_pairs(logs, first, alpha=0.05)
    assert calm is not None
    assert calm.low is not None
    assert found is not None
    assert found.low is not None
    assert found.low == pytest.approx(calm.low, abs=0.006)
    assert found.low > 1.02


def test_inverting_every_ratio_inverts_it() -> None:
    logs = [0.1, 0.02, 0.05, -0.01, 0.3, 0.04, 0.06, 0.02]
    first = [True, False] * 4
    found = median_of_pairs(logs, first, alpha=0.05)
    inverse = median_of_pairs([-x for x in logs], first, alpha=0.05)
    assert found is not None
    assert inverse is not None
    assert (1 / inverse.high, 1 / inverse.low) == pytest.approx((found.low, found.high))


@pytest.mark.parametrize("n", [0, 1, 8])
def test_too_few_pairs_have_none(n: int) -> None:
    assert median_of_pairs([0.1] * n, [True] * n, alpha=0.005) is None


def test_the_interval_holds_the_truth_as_often_as_it_says_with_an_order_effect() -> None:
    draw = np.random.default_rng(4)
    first = [place % 2 == 0 for place in range(12)]
    shift = np.where(first, 0.013, -0.013)
    hits = 0
    for _ in range(1000):
        found = median_of_pairs(
            list(0.02 + shift + 0.012 * draw.standard_normal(12)), first, alpha=0.05
        )
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += math.log(found.low) <= 0.02 <= math.log(found.high)
    assert hits >= 915  # of 950, less five standard deviations


def test_of_one_order_alone_nothing_is_taken() -> None:
    found = median_of_pairs([0.1] * 9, [True] * 9, alpha=0.05)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((math.exp(0.1),) * 3)
    assert (found.n, found.unit, found.level_ratio) == (9, "ratio", 0.95)


def test_orders_of_different_counts_are_put_on_one_level() -> None:
    found = median_of_pairs([3.0] * 5 + [1.0], [True] * 5 + [False], alpha=0.05)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((math.exp(2.0),) * 3)


def test_every_pair_has_its_order() -> None:
    with pytest.raises(ValueError, match="shorter"):
        median_of_pairs([0.1] * 9, [True] * 8, alpha=0.05)
