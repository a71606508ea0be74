from __future__ import annotations

import numpy as np
import pytest

from benchorch.stats.periodicity import slow_period

PLACES = np.arange(400)


def swinging(periods: float, swing: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    noise = 0.01 * np.random.default_rng(0).standard_normal(400)
    return 1e6 * (1 + noise + swing * np.sin(2 * np.pi * periods * PLACES / 400))


@pytest.mark.parametrize("periods", [1, 2, 4])
def test_a_window_of_less_than_five_swings_is_found(periods: int) -> None:
    assert slow_period(swinging(periods, 0.02)) == periods


def test_more_swings_than_that_average_out() -> None:
    assert slow_period(swinging(8, 0.02)) is None


def test_a_swing_that_does_not_matter_is_none() -> None:
    assert slow_period(swinging(3, 0.002)) is None


def test_noise_hardly_ever_swings() -> None:
    rng = np.random.default_rng(1)
    found = [slow_period(1e6 * (1 + 0.02 * rng.standard_normal(400))) for _ in range(300)]
    assert found.count(None) >= 298


@pytest.mark.parametrize("series", [[], [1.0] * 39, [5.0] * 100])
def test_too_short_a_series_and_a_constant_one_have_none(series: list[float]) -> None:
    assert slow_period(series) is None
