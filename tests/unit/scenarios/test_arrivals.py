"""Schedules follow from a seed alone."""

from __future__ import annotations

import numpy as np
import pytest

from benchorch.scenarios.arrivals import KINDS, Arrivals, Kind, fresh_seed, seeds


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_a_schedule_never_falls_and_begins_after_its_start(kind: Kind, count: int) -> None:
    due = Arrivals(kind=kind).due_ns(count, 123.0, 4)
    assert len(due) == count
    assert due[0] >= 1
    assert due == sorted(due)
    assert all(type(time) is int for time in due)


def test_constant_arrivals_keep_their_rate_however_long() -> None:
    due = Arrivals(kind="constant").due_ns(30_000, 3.0, 0)
    assert due[2] == 10**9
    assert due[-1] == 10_000 * 10**9


def test_bursty_with_a_variation_of_one_is_poisson_in_law() -> None:
    due = np.asarray(Arrivals(kind="bursty", cv=1.0).due_ns(100_000, 1000.0, 1))
    gaps = np.diff(due)
    neighbours = np.corrcoef(gaps[:-1], gaps[1:])[0, 1]
    assert abs(neighbours) < 4 / np.sqrt(gaps.size)


def test_bursts_last() -> None:
    due = np.asarray(Arrivals(kind="bursty", cv=4.0).due_ns(100_000, 1000.0, 1))
    counts = np.histogram(due, np.arange(0, due[-1], 50_000_000))[0]
    # Poisson counts vary as their mean; those of bursts of a hundred far more.
    assert counts.var() > 10 * counts.mean()


@pytest.mark.parametrize("cv", [0.5, 11.0, float("nan")])
def test_a_variation_that_cannot_be_is_refused(cv: float) -> None:
    with pytest.raises(ValueError, match=r"cv: from 1 to 10.*got"):
        Arrivals(kind="bursty", cv=cv)


def test_unknown_arrivals_are_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match="poisson, constant, bursty; got 'uniform'"):
        Arrivals(kind="uniform")  # type: ignore[arg-type]


def test_seeds_follow_from_one_and_differ() -> None:
    assert seeds(7, 5) == seeds(7, 5)
    assert len({*seeds(7, 50), *seeds(8, 50)}) == 100
    assert fresh_seed() != fresh_seed()
