"""Times at one speed of the machine, by simulation with a known slope."""

from __future__ import annotations

import numpy as np
import pytest

from benchorch.stats.speed_covariate import TimedTrial, speed_effect


def trial(
    rng: np.random.Generator, speed: float, *, slope: float = 1.0, n: int = 8, noise: float = 0.01
) -> TimedTrial:
    """A trial of 2 ms in a phase of the machine that is slower by `speed`."""
    logs = np.log(speed) + 0.03 * rng.standard_normal(n)
    times = 2.0 * np.exp(slope * logs + noise * rng.standard_normal(n))
    return TimedTrial(times=times.tolist(), references=(1000.0 * np.exp(logs)).tolist())


def test_the_slope_is_that_within_trials() -> None:
    rng = np.random.default_rng(0)
    found = speed_effect([trial(rng, speed) for speed in (1.0, 1.1, 1.2)])
    assert found is not None
    assert found.slope == pytest.approx(1.0, abs=found.reach)
    assert found.reach < 0.25


def test_a_slow_phase_of_the_machine_is_not_a_difference_between_trials() -> None:
    rng = np.random.default_rng(1)
    quiet, slow = trial(rng, 1.0), trial(rng, 1.15)
    found = speed_effect([quiet, slow])
    assert found is not None
    one, other = (found.adjusted(each, unit="ms") for each in (quiet, slow))
    assert one is not None
    assert other is not None
    assert other.value / one.value == pytest.approx(1.0, abs=0.03)
    assert one.low < other.high  # type: ignore[operator]
    assert other.low < one.high  # type: ignore[operator]


def test_intervals_of_identical_code_in_two_phases_seldom_exclude_each_other() -> None:
    rng = np.random.default_rng(2)
    apart = 0
    for _ in range(200):
        quiet, slow = trial(rng, 1.0), trial(rng, 1.15)
        found = speed_effect([quiet, slow])
        if found is not None:
            one, other = (found.adjusted(each, unit="ms") for each in (quiet, slow))
            apart += one.high < other.low or other.high < one.low  # type: ignore[operator, union-attr]
    assert apart <= 10


def test_what_does_not_follow_the_machine_is_left_alone() -> None:
    rng = np.random.default_rng(3)
    found = [speed_effect([trial(rng, 1.0, slope=0.0) for _ in range(3)]) for _ in range(100)]
    assert sum(one is not None for one in found) <= 8


def test_few_processes_have_no_slope() -> None:
    rng = np.random.default_rng(4)
    assert speed_effect([trial(rng, 1.0, n=4), trial(rng, 1.1, n=4)]) is None
    assert speed_effect([]) is None


def test_a_reference_that_never_moves_explains_nothing() -> None:
    still = TimedTrial(times=[1.0 + 0.01 * i for i in range(12)], references=[5.0] * 12)
    assert speed_effect([still]) is None
