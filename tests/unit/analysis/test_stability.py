from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchorch.analysis.stability import Shape, group_size, shifts, stability

N = 400
CALL_NS = 10_000_000.0
PLACES = np.arange(N)
SERIES: dict[str, NDArray[np.float64]] = {
    "flat": np.ones(N),
    "step at 20": np.where(PLACES < 20, 1.1, 1),
    "slow first call, step at 35": np.where(PLACES == 0, 6, np.where(PLACES < 35, 1.1, 1)),
    "2 % step at 60": np.where(PLACES < 60, 1.02, 1),
    "exponential": 1 + 0.5 * np.exp(-PLACES / 15),
    "step at 120": np.where(PLACES < 120, 1.1, 1),
    "slowdown at 150": np.where(PLACES < 150, 1, 1.1),
    "square wave": np.where(PLACES // 40 % 2, 1.1, 1),
    "drift": 1 + 0.25 * PLACES / N,
}
SETTLING = [name for name in SERIES if name not in ("square wave", "drift")]


def noisy(base: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """2 % noise and 2 % Pareto(2) spikes, in nanoseconds."""
    spikes = (rng.random(base.size) < 0.02) * rng.pareto(2, base.size)
    return CALL_NS * base * (1 + rng.normal(0, 0.02, base.size) + spikes)


def starts(name: str, repetitions: int = 200) -> list[int | None]:
    rng = np.random.default_rng(7)
    return [stability(noisy(SERIES[name], rng)).start for _ in range(repetitions)]


@pytest.mark.parametrize("name", SETTLING)
def test_the_steady_median_is_right_wherever_there_is_one(name: str) -> None:
    rng = np.random.default_rng(7)
    errors, lost = [], 0
    for _ in range(200):
        series = noisy(SERIES[name], rng)
        start = stability(series).start
        if start is None:
            lost += 1
        else:
            errors.append(abs(np.median(series[start:]) / (SERIES[name][-1] * CALL_NS) - 1))
    assert lost / 200 <= 0.02
    assert np.quantile(errors, 0.95) <= 0.005


@pytest.mark.parametrize("name", ["drift", "square wave"])
def test_a_series_that_never_settles_is_refused(name: str) -> None:
    found = starts(name)
    assert sum(start is None for start in found) / len(found) >= 0.99


def test_a_flat_series_is_kept_whole() -> None:
    found = starts("flat", 500)
    assert sum(start == 0 for start in found) / len(found) >= 0.95


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("flat", Shape.FLAT),
        ("step at 120", Shape.WARMUP),
        ("slowdown at 150", Shape.SLOWDOWN),
        ("drift", Shape.UNSETTLED),
    ],
)
def test_a_series_has_the_shape_of_its_beginning(name: str, shape: Shape) -> None:
    assert stability(noisy(SERIES[name], np.random.default_rng(0))).shape is shape


def test_the_first_calls_that_compile_are_left_out() -> None:
    series = np.full(200, CALL_NS)
    series[[0, 36]] = 1e9
    found = stability(noisy(series / CALL_NS, np.random.default_rng(0)))
    assert found.start is not None
    assert found.start <= 40


@pytest.mark.parametrize("n", range(6))
def test_fewer_than_six_blocks_prove_nothing(n: int) -> None:
    assert stability([1e9] * n).start is None


def test_ten_slow_calls_can_be_steady() -> None:
    calls = 1e9 * (1 + 0.01 * np.random.default_rng(0).standard_normal(10))
    assert stability(calls).start == 0


def test_constant_blocks_are_flat() -> None:
    assert stability([10_000_000] * 100).shape is Shape.FLAT


def test_a_quantised_clock_makes_no_shifts() -> None:
    rng = np.random.default_rng(0)
    ticks = np.round(CALL_NS / 1e4 + rng.normal(0, 1, 400)) * 1e4
    assert stability(ticks).start == 0


def test_a_steady_part_of_less_than_a_quarter_second_is_not_enough() -> None:
    assert stability([1_000_000] * 100).start is None
    assert stability([1_000_000] * 300).start == 0


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_value_that_is_no_number_settles_nothing(wrong: float) -> None:
    assert stability([CALL_NS] * 50 + [wrong] + [CALL_NS] * 50).start is None


@given(st.integers(0, 1000), st.floats(1.0, 1e3))
def test_a_longer_unit_of_time_changes_nothing(seed: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    series = noisy(SERIES[rng.choice(sorted(SERIES))], rng)
    assert stability(series) == stability(series * factor)


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


def cpu_s(work: Callable[[], object]) -> float:
    samples = []
    for _ in range(5):
        started = time.process_time()
        work()
        samples.append(time.process_time() - started)
    return min(samples)


def test_the_search_takes_milliseconds_even_for_long_series() -> None:
    rng = np.random.default_rng(0)
    short = noisy(SERIES["flat"], rng)
    long = noisy(np.ones(100_000), rng)
    assert cpu_s(lambda: stability(short)) < 0.02
    assert cpu_s(lambda: stability(long)) < 0.2
