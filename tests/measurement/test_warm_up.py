"""§2.2: the search for a steady state, on nine kinds of series with 2 % noise and 2 % spikes.

Reduced to 250 series a kind; ``benchmarks/statistical_power.py`` runs 1000.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchorch.stats.steady_state import steady_from
from support.simulated_samples import autoregressive
from support.statistics_experiments import SETTLING, settle, standard_error

SERIES = 250


@pytest.mark.parametrize("name", SETTLING)
def test_the_steady_median_is_right_wherever_there_is_one(name: str) -> None:
    found = settle(name, SERIES)
    # The 95th percentile of 250 errors lies between the true 92nd and 98th in 19 of 20 cases.
    assert np.quantile(found.errors, 0.95) <= 0.005
    assert found.lost / SERIES <= 0.02 + 2 * standard_error(0.02, SERIES)


@pytest.mark.parametrize("name", ["drift", "square wave"])
def test_a_series_that_never_settles_is_refused(name: str) -> None:
    found = settle(name, SERIES)
    assert found.lost / SERIES >= 0.99 - 2 * standard_error(0.99, SERIES)


def test_a_flat_series_is_kept_whole() -> None:
    found = settle("flat", 2 * SERIES)
    assert 1 - (found.cut + found.lost) / (2 * SERIES) >= 0.95
    assert found.lost / (2 * SERIES) <= 0.02


def test_a_steady_state_begins_after_the_last_compilation_however_flat_the_series() -> None:
    rng = np.random.default_rng(0)
    series = 5e6 * (1 + 0.01 * rng.standard_normal(400))
    assert steady_from(series) == 0
    assert steady_from(series, not_before=37) == 37
    assert steady_from(series, not_before=399) is None


@pytest.mark.parametrize("calls", [100, 200, 400, 1000])
@pytest.mark.parametrize(
    ("share", "slower", "noise"), [(0.3, 0.08, 0.005), (0.5, 0.3, 0.01), (0.4, 0.3, 0.002)]
)
def test_calls_that_take_one_of_two_times_are_steady(
    calls: int, share: float, slower: float, noise: float
) -> None:
    rng = np.random.default_rng(calls)
    shape = (60, calls)
    drawn = 5e6 * (1 + slower * (rng.random(shape) < share)) * rng.lognormal(0, noise, shape)
    refused = [steady_from(series, least_steady_ns=0) is None for series in drawn]
    assert np.mean(refused) <= 0.02 + 2 * standard_error(0.02, 60)


@pytest.mark.parametrize("calls", [100, 200, 400])
@pytest.mark.parametrize("change", [0.1, -0.1, 0.25])
def test_a_slope_is_no_steady_state_however_it_looks_in_stairs(calls: int, change: float) -> None:
    rng = np.random.default_rng(calls)
    slope = 1 + change * np.arange(calls) / calls
    drawn = 5e6 * slope * (1 + 0.02 * rng.standard_normal((60, calls)))
    refused = [steady_from(series, least_steady_ns=0) is None for series in drawn]
    assert np.mean(refused) >= 0.98 - 2 * standard_error(0.98, 60)


def test_calls_that_resemble_the_one_before_are_steady_although_they_wander() -> None:
    rng = np.random.default_rng(0)
    drawn = 5e6 * autoregressive(0.9, 0.03)(rng, (60, 1000))
    refused = [steady_from(series, least_steady_ns=0) is None for series in drawn]
    assert np.mean(refused) <= 0.2 + 2 * standard_error(0.2, 60)
    drifting = drawn * (1 + 0.25 * np.arange(1000) / 1000)
    refused = [steady_from(series, least_steady_ns=0) is None for series in drifting]
    assert np.mean(refused) >= 0.95 - 2 * standard_error(0.95, 60)
