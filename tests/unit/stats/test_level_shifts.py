"""Shifts that were put in are found where they are, and noise of sessions is none."""

from __future__ import annotations

import numpy as np
import pytest

from benchorch.domain.estimate import Estimate
from benchorch.stats.level_shifts import level_shifts

OWN = 0.004


def estimates(values, own: float = OWN) -> list[Estimate]:
    half = np.exp(1.96 * own)
    return [
        Estimate(
            value=float(value), low=float(value / half), high=float(value * half),
            level_ratio=0.95, n=8, unit="ms", method="drawn",
        )
        for value in values
    ]  # fmt: skip


def sessions(n: int, seed: int, spread: float = 0.02, df: float = 0.0) -> np.ndarray:
    """Values of one level whose sessions differ by more than their own intervals say."""
    rng = np.random.default_rng([n, seed])
    noise = rng.standard_t(df, n) if df else rng.normal(size=n)
    return np.exp(spread * noise)


@pytest.mark.parametrize("n", [6, 8, 12, 25, 60])
def test_sessions_of_one_level_seldom_show_a_shift(n: int) -> None:
    alarms = sum(bool(level_shifts(estimates(sessions(n, seed)))) for seed in range(400))
    assert alarms <= 0.06 * 400


def test_heavy_tails_seldom_show_a_shift() -> None:
    alarms = sum(bool(level_shifts(estimates(sessions(30, seed, df=3)))) for seed in range(400))
    assert alarms <= 0.06 * 400


@pytest.mark.parametrize("ratio", [0.8, 1.1, 1.5])
def test_a_shift_is_found_where_it_is(ratio: float) -> None:
    exact = found = 0
    for seed in range(100):
        values = sessions(24, seed)
        values[14:] *= ratio
        shifts = level_shifts(estimates(values))
        found += len(shifts) == 1 and shifts[0].ratio.low <= ratio <= shifts[0].ratio.high
        exact += [one.start for one in shifts] == [14]
    assert found >= 90
    assert exact >= 70


def test_a_shift_is_seen_with_its_third_session_and_a_lone_outlier_is_none() -> None:
    level = sessions(12, 1, spread=0.005)
    for count, seen in ((1, []), (2, []), (3, [12])):
        values = np.concatenate([level, 1.3 * sessions(count, 2, spread=0.005)])
        assert [one.start for one in level_shifts(estimates(values))] == seen
    level[5] *= 2
    assert level_shifts(estimates(level)) == []


def test_what_does_not_matter_in_practice_is_left_out() -> None:
    for factor, starts in ((1.005, []), (1.015, [20])):
        values = sessions(40, 3, spread=0.0005)
        values[20:] *= factor
        shifts = level_shifts(estimates(values, own=0.0005))
        assert [one.start for one in shifts] == starts


def test_the_unit_changes_nothing_and_short_series_have_no_shift() -> None:
    values = sessions(20, 5)
    values[10:] *= 1.2
    plain, scaled = (level_shifts(estimates(values * unit)) for unit in (1.0, 1e-6))
    assert [one.start for one in plain] == [one.start for one in scaled] == [10]
    assert plain[0].ratio.value == pytest.approx(scaled[0].ratio.value)
    assert level_shifts(estimates([1, 2, 3, 4, 5])) == []
