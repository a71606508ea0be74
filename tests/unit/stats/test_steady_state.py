from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchorch.stats.steady_state import group_size, shifts, steady_from
from support.statistics_experiments import WARM_UPS, warm_up_series

CALL_NS = 10_000_000.0


@pytest.mark.parametrize(
    ("name", "start"),
    [("flat", 0), ("step at 120", 120), ("slowdown at 150", 150), ("drift", None)],
)
def test_a_series_is_steady_from_its_last_shift_on(name: str, start: int | None) -> None:
    assert steady_from(warm_up_series(name, np.random.default_rng(0))) == start


def test_the_first_calls_that_compile_are_left_out() -> None:
    series = CALL_NS * (1 + 0.02 * np.random.default_rng(0).standard_normal(200))
    series[[0, 36]] = 1e9
    found = steady_from(series)
    assert found is not None
    assert found <= 40


@pytest.mark.parametrize("n", range(6))
def test_fewer_than_six_blocks_prove_nothing(n: int) -> None:
    assert steady_from([1e9] * n) is None


def test_ten_slow_calls_can_be_steady() -> None:
    calls = 1e9 * (1 + 0.01 * np.random.default_rng(0).standard_normal(10))
    assert steady_from(calls) == 0


def test_constant_blocks_are_flat() -> None:
    assert steady_from([10_000_000] * 100) == 0


def test_a_quantised_clock_makes_no_shifts() -> None:
    rng = np.random.default_rng(0)
    ticks = np.round(CALL_NS / 1e4 + rng.normal(0, 1, 400)) * 1e4
    assert steady_from(ticks) == 0


def test_a_steady_part_of_less_than_a_quarter_second_is_not_enough() -> None:
    assert steady_from([1_000_000] * 100) is None
    assert steady_from([1_000_000] * 300) == 0


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_value_that_is_no_number_settles_nothing(wrong: float) -> None:
    assert steady_from([CALL_NS] * 50 + [wrong] + [CALL_NS] * 50) is None


@given(st.integers(0, 1000), st.floats(1.0, 1e3))
def test_a_longer_unit_of_time_changes_nothing(seed: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    series = warm_up_series(rng.choice(sorted(WARM_UPS)), rng)
    assert steady_from(series) == steady_from(series * factor)


@pytest.mark.parametrize(
    ("n", "size"), [(6, 1), (39, 1), (60, 3), (100, 5), (2000, 5), (2001, 10), (100_000, 250)]
)
def test_long_series_get_larger_groups(n: int, size: int) -> None:
    assert group_size(n) == size
    assert n // group_size(n) <= 400


def test_the_search_finds_every_shift_of_a_clean_series() -> None:
    levels = np.repeat([0.0, 8.0, 3.0], [20, 30, 25])
    assert shifts(levels, 4.5 * math.log(levels.size)) == [20, 50]


def test_the_search_is_exact() -> None:
    """Against every way of cutting a short series."""

    def cost(points: NDArray[np.float64], cuts: list[int]) -> float:
        parts = np.split(points, cuts)
        return sum(float(((p - p.mean()) ** 2).sum()) for p in parts) + 5.0 * len(cuts)

    def ways(first: int, n: int) -> list[list[int]]:
        rest = [[cut, *more] for cut in range(first + 3, n - 2) for more in ways(cut, n)]
        return [[], *rest]

    rng = np.random.default_rng(5)
    for _ in range(20):
        points = rng.normal(0, 1, 14) + np.repeat(rng.normal(0, 3, 2), 7)
        best = min(cost(points, cuts) for cuts in ways(0, points.size))
        assert cost(points, shifts(points, 5.0)) == pytest.approx(best)
