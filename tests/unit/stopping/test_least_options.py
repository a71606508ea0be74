"""The least that each option allows is allowed, and the rules' own words are what they do."""

from __future__ import annotations

import pytest

from benchorch.interfaces.stopping import Stopping
from benchorch.stopping.decide import Decide
from benchorch.stopping.fixed import Fixed
from benchorch.stopping.precision import Precision

LEAST = {"min_calls": 1, "looks": [2], "budget_s": 1e-9, "max_processes": 1}


@pytest.mark.parametrize(
    "rule",
    [
        lambda: Fixed(processes=1, calls=1, window_s=0),
        lambda: Decide(unpaired_processes=1, min_window_s=1e-9, max_window_s=1e-9, **LEAST),  # type: ignore[arg-type]
        lambda: Precision(min_processes=1, min_pairs=3, **LEAST),  # type: ignore[arg-type]
        lambda: Decide(unpaired_processes=40),
        lambda: Precision(min_processes=40, target_ratio=0.99, min_window_s=5.0),
    ],
)
def test_the_least_and_the_most_are_allowed(rule: type[Stopping]) -> None:
    assert rule()


def test_looks_of_a_list_are_a_tuple() -> None:
    for rule in (Decide(looks=[3, 6]), Precision(looks=[3, 6])):  # type: ignore[arg-type]
        assert rule.looks == rule.planned_looks() == (3, 6)
        assert hash(rule)


def test_a_window_is_full_to_the_nanosecond() -> None:
    assert Fixed(calls=1, window_s=1e-6).enough_calls([1000], 1)
    assert not Fixed(calls=1, window_s=1e-6).enough_calls([999], 1)


@pytest.mark.parametrize("calls_per_block", [1, 7])
def test_no_more_blocks_are_added_than_the_calls_need(calls_per_block: int) -> None:
    rule = Fixed(calls=7 * calls_per_block)
    taken = [n for n in range(1, 9) if rule.enough_calls([1] * n, calls_per_block)]
    assert taken[0] == 7


def test_a_budget_ends_a_trial_only_with_its_fewest_processes() -> None:
    decide, precision = Decide(budget_s=5, unpaired_processes=3), Precision(budget_s=5)
    assert decide.enough_processes([1.0, 2.0], 5, [0.1, -0.1]) is None
    assert precision.enough_processes([1.0, 2.0], 5) is None
    for rule in (decide, precision):
        assert rule.enough_processes([1.0, 2.0, 9.0], 5, [0.5, -0.5, 0.1]) == "budget_exhausted"
        assert rule.enough_processes([1.0, 2.0, 9.0], 4.9, [0.5, -0.5, 0.1]) is None


def test_the_published_defaults_are_those_of_the_documentation() -> None:
    assert Decide().planned_looks() == Precision().planned_looks() == (5, 8, 12, 18, 27, 40)
