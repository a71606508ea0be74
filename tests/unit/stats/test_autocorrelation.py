from __future__ import annotations

import numpy as np
import pytest

from benchorch.stats.autocorrelation import independent, independent_n, integrated_time, lag_one
from support.simulated_samples import autoregressive, heavy, normal


def test_the_autocorrelation_of_ranks_is_that_of_the_hand() -> None:
    # Ranks -1.5, -0.5, 0.5, 1.5: squares add up to 5, products of neighbours to 1.25.
    assert lag_one([[10.0, 20.0, 30.0, 1000.0]]) == pytest.approx((0.75 - 0.25 + 0.75) / 5)


def test_stretches_have_neighbours_inside_only_and_ranks_together() -> None:
    together = lag_one([[1.0, 2.0], [3.0, 4.0]])
    assert together == pytest.approx((0.75 + 0.75) / 5)


@pytest.mark.parametrize("series", [[], [[]], [[1.0]], [[2.0] * 50], [[1.0], [2.0]]])
def test_where_there_is_nothing_to_correlate_it_is_zero(series: list[list[float]]) -> None:
    assert lag_one(series) == 0.0


def test_processes_that_differ_are_not_independent_as_one_sample() -> None:
    rng = np.random.default_rng(0)
    same = normal(rng, (5, 200))
    assert independent(list(same))
    assert not independent(list(same * (1 + 0.02 * np.arange(5)[:, None])))


def test_a_few_outliers_do_not_hide_the_correlation_of_all_others() -> None:
    rng = np.random.default_rng(0)
    series = autoregressive(0.6)(rng, (1, 500))[0]
    series[rng.integers(0, 500, 10)] += 1e6
    assert not independent([series])
    assert independent([heavy(rng, (1, 500))[0]])


def test_few_observations_are_hardly_ever_taken_for_independent() -> None:
    rng = np.random.default_rng(0)
    assert sum(independent([row]) for row in normal(rng, (200, 20))) <= 4
    assert not independent([[1.0]])


@pytest.mark.parametrize(("rho", "truth"), [(0.0, 1.0), (0.5, 3.0), (0.9, 19.0)])
def test_the_integrated_time_is_about_that_of_the_process_and_rather_too_long(
    rho: float, truth: float
) -> None:
    series = autoregressive(rho)(np.random.default_rng(0), (50, 20_000))
    middle = np.median([integrated_time(row) for row in series])
    assert 0.95 * truth <= middle <= 1.35 * truth


@pytest.mark.parametrize("series", [[], [1.0], [3.0] * 100])
def test_a_series_without_movement_has_a_time_of_one(series: list[float]) -> None:
    assert integrated_time(series) == 1.0


def test_correlated_observations_tell_less_than_their_number() -> None:
    rng = np.random.default_rng(0)
    assert independent_n(normal(rng, (1, 1000))[0]) == 1000
    assert independent_n(autoregressive(0.9)(rng, (1, 1000))[0]) < 150
