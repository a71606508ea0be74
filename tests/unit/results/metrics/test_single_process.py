from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from benchorch.results.metrics.single_process import median_of_one, provisional
from support.simulated_samples import autoregressive, normal, process


def test_independent_calls_get_order_statistics() -> None:
    found = median_of_one(normal(np.random.default_rng(0), (1, 500))[0], unit="ms")
    assert found is not None
    assert "order-statistic" in found.method
    assert found.low < found.value < found.high  # type: ignore[operator]
    assert found.n == 500


def test_correlated_calls_get_medians_of_stretches() -> None:
    found = median_of_one(autoregressive(0.5)(np.random.default_rng(0), (1, 2000))[0], unit="ms")
    assert found is not None
    assert "stretches" in found.method
    assert 10 <= found.n <= 50
    assert found.low < found.value < found.high  # type: ignore[operator]


def test_too_few_correlated_calls_get_no_interval() -> None:
    found = median_of_one(autoregressive(0.9)(np.random.default_rng(0), (1, 300))[0], unit="ms")
    assert found is not None
    assert (found.low, found.high) == (None, None)
    assert found.value == pytest.approx(1, abs=0.02)


def test_one_call_has_a_value_and_no_interval() -> None:
    found = median_of_one([3.0], unit="ms")
    assert found is not None
    assert (found.value, found.low, found.n) == (3.0, None, 1)


@pytest.mark.parametrize("wrong", [[], [math.nan, 1.0], [math.inf]])
def test_no_numbers_give_nothing(wrong: list[float]) -> None:
    assert median_of_one(wrong, unit="ms") is None


def test_scaling_all_values_scales_the_estimate() -> None:
    series = autoregressive(0.5)(np.random.default_rng(0), (1, 2000))[0]
    one, other = median_of_one(series, unit="ms"), median_of_one(series * 4, unit="ms")
    assert one is not None
    assert other is not None
    assert (other.value, other.low) == pytest.approx((4 * one.value, 4 * one.low))  # type: ignore[operator]


def test_a_process_gives_a_first_impression_of_its_steady_queries() -> None:
    times = normal(np.random.default_rng(0), (1, 600))[0]
    times[:100] *= 5
    found = provisional(process(times, steady_from=100))
    assert found is not None
    assert found.unit == "ms"
    assert found.value == pytest.approx(1, abs=0.01)
    assert found.low is not None


def test_queries_that_were_all_there_at_once_give_none() -> None:
    record = process(np.ones(50))
    at_once = dataclasses.replace(record.observations, at_once=True)
    assert provisional(dataclasses.replace(record, observations=at_once)) is None
    assert provisional(process(np.ones(0))) is None
