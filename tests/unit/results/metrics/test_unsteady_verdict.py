"""Verdicts of processes that were not steady: withheld, and whether more pairs may support them."""

from __future__ import annotations

import pytest

from benchorch.domain.estimate import Comparison
from benchorch.results.metrics.speedup import Question, answered_alone, answers
from benchorch.stats.pairs import ADJACENT, ALTERNATED, Pair
from benchorch.stats.ratio_test import INCONCLUSIVE

TIGHT, WIDE = (0.999, 1.0, 1.001, 1.0, 1.0005), (1 / 1.3, 1.3, 0.8, 1.25, 1.0)


def unsteady(ratio: float, least: float, most: float) -> Question:
    """Pairs at `ratio`, whose unsteady sides leave anything between `least` and `most` possible."""
    parts = (pairs(least, WIDE), pairs(most, WIDE))
    return Question(design=ADJACENT, pairs=pairs(ratio, TIGHT), parts=parts, delta_ratio=0.01)


def pairs(centre: float, scatter: tuple[float, ...]) -> list[Pair]:
    return [Pair(ours=1.0, theirs=centre * each) for each in scatter]


def compared(ratio: float, least: float, most: float) -> Comparison:
    found = answered_alone(unsteady(ratio, least, most))
    assert found is not None
    return found


def test_a_difference_is_supported_by_the_direction_of_the_worst_levels() -> None:
    assert compared(1.5, least=1.2, most=1.9).verdict == "faster"
    assert compared(0.6, least=0.5, most=0.8).verdict == "slower"


def test_equivalence_is_supported_by_worst_levels_that_are_equivalent_alone() -> None:
    found = compared(1.0, least=0.999, most=1.001)
    assert found.verdict == INCONCLUSIVE
    assert found.pairs_needed


def test_halves_of_a_moving_ratio_must_each_have_the_verdict() -> None:
    parts = (pairs(1.2, WIDE), pairs(1.9, WIDE))
    asked = Question(design=ALTERNATED, pairs=pairs(1.5, TIGHT), parts=parts, delta_ratio=0.01)
    found = answered_alone(asked)
    assert found is not None
    assert found.verdict == INCONCLUSIVE
    assert found.pairs_needed


@pytest.mark.parametrize(("least", "most"), [(0.8, 1.9), (1.0, 1.9)])
def test_no_number_of_pairs_supports_what_one_speed_contradicts(least: float, most: float) -> None:
    found = compared(1.5, least=least, most=most)
    assert found.verdict == INCONCLUSIVE
    assert found.pairs_needed is None


def test_what_all_speeds_show_already_is_a_verdict() -> None:
    assert compared(3.0, least=2.8, most=3.2).verdict == "faster"


def test_the_best_of_a_table_is_not_one_whose_verdict_was_withheld() -> None:
    steady = Question(design=ADJACENT, pairs=pairs(1.2, TIGHT), delta_ratio=0.01)
    slow = Question(design=ADJACENT, pairs=pairs(0.8, TIGHT), delta_ratio=0.01)
    table = {"doubtful": unsteady(1.5, least=0.8, most=1.9), "steady": steady, "slow": slow}
    assert answers(table, "eager").best == ("doubtful", "steady")
    del table["steady"]
    assert answers(table, "eager").best == ("doubtful", "eager")
