from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchorch.analysis.processes import half_width_ratio, median_query_ns, over_processes
from benchorch.domain.measurement import Observations

positive = st.floats(1e-3, 1e9)


def test_the_interval_is_students_t_on_logarithms() -> None:
    # Logarithms 0, 1, 2: mean 1, s = 1, t(0.975, 2) = 4.302653.
    found = over_processes([1.0, math.e, math.e**2], unit="ms")
    assert found is not None
    reach = 4.302652729911275 / math.sqrt(3)
    assert found.value == pytest.approx(math.e)
    assert (found.low, found.high) == pytest.approx((math.exp(1 - reach), math.exp(1 + reach)))
    assert half_width_ratio([1.0, math.e, math.e**2], 0.05) == pytest.approx(math.expm1(reach))


def test_nothing_observed_gives_nothing() -> None:
    assert over_processes([], unit="ms") is None
    assert half_width_ratio([], 0.05) is None


def test_one_process_has_no_interval() -> None:
    found = over_processes([5.0], unit="ms")
    assert found is not None
    assert (found.value, found.low, found.high, found.n) == (5.0, None, None, 1)
    assert half_width_ratio([5.0], 0.05) is None


def test_two_processes_have_a_wide_one() -> None:
    found = over_processes([1.0, 1.02], unit="ms")
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.high / found.low > 1.25


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_value_that_is_no_number_gives_nothing(wrong: float) -> None:
    assert over_processes([1.0, wrong], unit="ms") is None
    assert half_width_ratio([1.0, wrong], 0.05) is None


@pytest.mark.parametrize("wrong", [0.0, -1.0])
def test_a_value_without_a_logarithm_costs_the_interval(wrong: float) -> None:
    found = over_processes([1.0, 2.0, wrong], unit="ms")
    assert found is not None
    assert (found.value, found.low) == (1.0, None)
    assert half_width_ratio([1.0, wrong], 0.05) is None


@given(st.lists(positive, min_size=2, max_size=12), st.floats(1e-3, 1e3), st.integers(0, 99))
def test_scale_scales_and_order_does_not_matter(
    values: list[float], factor: float, seed: int
) -> None:
    found = over_processes(values, unit="ms")
    scaled = over_processes([v * factor for v in values], unit="ms")
    shuffled = over_processes(np.random.default_rng(seed).permutation(values), unit="ms")
    assert found is not None
    assert scaled is not None
    assert shuffled is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx(
        (found.value * factor, found.low * factor, found.high * factor), rel=1e-6
    )
    assert (shuffled.low, shuffled.high) == pytest.approx((found.low, found.high), rel=1e-6)


def test_the_headline_of_a_process_is_per_call_and_steady() -> None:
    observations = Observations(
        durations_ns=(9000, 400, 200, 400), started_ns=(0, 1, 2, 3), calls_per_block=4,
        items_per_call=1,
    )  # fmt: skip
    assert median_query_ns(observations, 1) == 100.0
    assert median_query_ns(observations, None) == 100.0
    assert median_query_ns(observations, 3) == 100.0


def noise(kind: str, rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Relative noise of calls, shape (processes, calls), median 0."""
    if kind == "normal":
        return rng.normal(0, 0.02, shape)
    if kind == "heavy tail":
        spikes = (rng.random(shape) < 0.05) * (rng.pareto(1.5, shape) + 1)
        return rng.normal(0, 0.02, shape) + spikes
    out = rng.normal(0, 0.02, shape)
    rho = float(kind)
    for column in range(1, shape[1]):
        out[:, column] = rho * out[:, column - 1] + math.sqrt(1 - rho**2) * out[:, column]
    return out


@pytest.mark.parametrize("kind", ["normal", "heavy tail", "0.5", "0.9"])
@pytest.mark.parametrize("processes", [5, 10, 20])
def test_the_headline_interval_covers_the_truth_whatever_the_calls_do(
    kind: str, processes: int
) -> None:
    rng = np.random.default_rng(processes)
    repetitions, calls = 3000, 60
    effects = rng.normal(0, 0.01, (repetitions * processes, 1))
    times = np.exp(effects) * (1 + noise(kind, rng, (repetitions * processes, calls)))
    medians = np.median(times, axis=1)
    # Spikes shift the median of a call a little; that shifted median is what is estimated.
    truth = float(np.exp(np.log(medians).mean()))
    covered = 0
    for group in medians.reshape(repetitions, processes):
        found = over_processes(group, unit="ms")
        assert found is not None
        covered += found.low <= truth <= found.high  # type: ignore[operator]
    assert covered / repetitions >= 0.935
