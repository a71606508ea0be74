from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.measurement import Observations
from benchorch.stats.between_processes import (
    half_width_ratio,
    median_query_ns,
    over_processes,
    steady_queries_ns,
)

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


def test_several_queries_in_a_block_share_its_time_and_a_query_keeps_its_calls() -> None:
    observed = Observations(
        durations_ns=(800, 1600), started_ns=(0, 800), calls_per_block=8, items_per_call=1,
        calls_per_query=4,
    )  # fmt: skip
    assert observed.queries_per_block == 2
    assert steady_queries_ns(observed, None).tolist() == [400.0, 800.0]
    assert median_query_ns(observed, None) == 600.0


def test_a_scheduled_query_counts_from_when_it_was_due() -> None:
    observed = Observations(
        durations_ns=(10, 10, 10), started_ns=(0, 50, 60), calls_per_block=1, items_per_call=1,
        scheduled_ns=(0, 20, 40),
    )  # fmt: skip
    assert steady_queries_ns(observed, 0).tolist() == [10.0, 40.0, 30.0]
    assert median_query_ns(observed, 1) == 35.0


def test_a_process_that_saw_nothing_has_no_median() -> None:
    nothing = Observations(durations_ns=(), started_ns=(), calls_per_block=1, items_per_call=1)
    assert math.isnan(median_query_ns(nothing, None))


def test_a_smaller_error_rate_widens_the_interval_and_says_why() -> None:
    values = [1.0, 1.1, 1.05]
    once = over_processes(values, unit="ms")
    looked = over_processes(values, unit="ms", alpha=0.0115)
    assert once is not None
    assert looked is not None
    assert looked.high > once.high  # type: ignore[operator]
    assert looked.value == once.value
    assert looked.level_ratio == once.level_ratio == 0.95
    assert "1.15% at each look" in looked.method


@given(st.lists(positive, min_size=2, max_size=12))
def test_the_half_width_is_that_of_the_interval_that_is_shown(values: list[float]) -> None:
    found = over_processes(values, unit="ms", alpha=0.01)
    half_width = half_width_ratio(values, 0.01)
    assert found is not None
    assert half_width is not None
    assert found.high / found.low == pytest.approx((1 + half_width) ** 2, rel=1e-6)  # type: ignore[operator]


def test_values_as_far_apart_as_can_be_have_a_finite_interval() -> None:
    found = over_processes([1e-300, 1e300], unit="ms", alpha=1e-6)
    assert found is not None
    assert 0 < found.low < found.high < math.inf  # type: ignore[operator]
