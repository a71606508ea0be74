from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.stats.quantiles import minimum_n, order_bounds, quantile, sample_quantile


@pytest.mark.parametrize(
    ("ratio", "least"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688)]
)
def test_the_fewest_observations_of_a_quantile_are_the_known_ones(ratio: float, least: int) -> None:
    assert minimum_n(ratio) == least
    assert order_bounds(least - 1, ratio) is None
    bounds = order_bounds(least, ratio)
    assert bounds is not None
    assert bounds[1] == least - 1


def test_the_median_of_ten_lies_between_the_second_and_the_ninth() -> None:
    # P(B <= 1) = 11/1024 <= 2.5 %, and P(B <= 2) = 56/1024 is more.
    assert order_bounds(10, 0.5) == (1, 8)


@pytest.mark.parametrize("n", [0, 1, 2, 367])
def test_p99_is_never_given_below_368_observations(n: int) -> None:
    assert quantile(np.arange(n, dtype=float), 0.99, unit="ms") is None


def test_p99_is_given_at_368() -> None:
    found = quantile(np.arange(368, dtype=float), 0.99, unit="ms")
    assert found is not None
    assert found.low is not None
    assert found.low < found.value < found.high == 367.0
    assert found.n == 368


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_value_that_is_no_number_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        quantile([1.0] * 20 + [wrong], 0.5, unit="ms")


@given(
    values=st.lists(st.floats(1.0, 1e6), min_size=6, max_size=60),
    seed=st.integers(0, 99),
    shift=st.floats(-1e3, 1e3),
)
def test_order_does_not_matter_and_a_shift_shifts(
    values: list[float], seed: int, shift: float
) -> None:
    found = quantile(values, 0.5, unit="ms")
    shuffled = quantile(np.random.default_rng(seed).permutation(values), 0.5, unit="ms")
    moved = quantile(np.asarray(values) + shift, 0.5, unit="ms")
    assert found == shuffled
    assert found is not None
    assert moved is not None
    assert found.low is not None
    assert found.low <= found.value <= found.high  # type: ignore[operator]
    assert (moved.value, moved.low) == pytest.approx(
        (found.value + shift, found.low + shift), abs=1e-6
    )


def test_a_quantile_of_a_long_tail_is_neither_too_low_nor_too_high_on_average() -> None:
    drawn = np.random.default_rng(0).pareto(1.5, (4000, 368)) + 1
    logs = [math.log(sample_quantile(row, 0.99)) for row in drawn]
    truth = math.log(0.01 ** (-1 / 1.5))
    # The mean of 4000 logarithms is known to within 0.01.
    assert np.mean(logs) == pytest.approx(truth, abs=0.02)
    assert np.mean(np.log(np.quantile(drawn, 0.99, axis=1))) < truth - 0.05
