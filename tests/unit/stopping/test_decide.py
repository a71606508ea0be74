from __future__ import annotations

import pytest

from benchorch.stopping.decide import Decide

MS = 1_000_000


def calls_taken(call_ms: float, rule: Decide) -> int:
    """How many calls of a constant duration one process makes."""
    blocks: list[int] = []
    while not rule.enough_calls(blocks, 1):
        blocks.append(round(call_ms * MS))
    return len(blocks)


@pytest.mark.parametrize(
    ("call_ms", "least", "most"),
    [(1, 300, 400), (100, 12, 17), (400, 6, 6), (1300, 5, 5), (10_000, 3, 3)],
)
def test_the_window_follows_the_duration_of_a_call(call_ms: float, least: int, most: int) -> None:
    assert least <= calls_taken(call_ms, Decide()) <= most


CLEAR, UNCLEAR = [0.3, 0.31, 0.29, 0.3, 0.3], [0.3, -0.3, 0.1, -0.2, 0.2]


@pytest.mark.parametrize(("ratios", "reason"), [(CLEAR, "converged"), (UNCLEAR, None)])
def test_a_trial_alone_stops_once_its_verdict_is_decided(
    ratios: list[float], reason: str | None
) -> None:
    assert Decide().enough_processes([1e6] * 5, 10, ratios) == reason


def test_a_trial_alone_is_judged_at_interim_analyses_only() -> None:
    assert Decide().enough_processes([1e6] * 4, 10, CLEAR[:4]) is None


def test_what_has_no_pairs_stops_after_a_few_processes() -> None:
    rule = Decide(unpaired_processes=3)
    assert [rule.enough_processes([1e6] * n, 10) for n in (2, 3)] == [None, "converged"]


def test_a_trial_alone_ends_with_its_budget_or_the_most_processes() -> None:
    assert Decide(budget_s=60).enough_processes([1e6] * 5, 60, UNCLEAR) == "budget_exhausted"
    rule = Decide(max_processes=5)
    assert rule.enough_processes([1e6] * 5, 1, UNCLEAR) == "budget_exhausted"


def test_all_candidates_of_a_table_are_judged_on_the_terms_of_the_rule() -> None:
    terms = Decide(looks=(4, 6), max_processes=9).table_terms(0.02)
    assert (terms.looks, terms.most, terms.delta_ratio) == ((4, 6), 9, 0.02)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"min_window_s": 2.0}, "min_window_s: above 0, at most max_window_s"),
        ({"min_window_s": 0.0}, "min_window_s: above 0, at most max_window_s"),
        ({"min_calls": 0}, "min_calls: at least 1"),
        ({"looks": ()}, "looks: increasing counts from 2 on"),
        ({"looks": (5, 5)}, "looks: increasing counts from 2 on"),
        ({"unpaired_processes": 50}, "unpaired_processes: at least 1, at most max_processes"),
        ({"budget_s": 0}, "budget_s: above 0"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Decide(**options)  # type: ignore[arg-type]


NEAR = (0.006, 0.004, 0.008, 0.007, 0.005, 0.005, 0.007, 0.006, 0.004, 0.008, 0.006, 0.006)


def test_a_verdict_must_hold_in_the_whole_table_before_a_trial_ends() -> None:
    rule = Decide(looks=(12,))
    ratios = [10 * (value - 0.006) + 0.0115 for value in NEAR]
    assert rule.enough_processes([1e6] * 12, 10, ratios, candidates=1) == "converged"
    assert rule.enough_processes([1e6] * 12, 10, ratios, candidates=200) is None


def test_what_matters_decides_whether_two_are_equivalent() -> None:
    rule = Decide(looks=(12,))
    centred = [3 * (value - 0.006) for value in NEAR]
    assert rule.enough_processes([1e6] * 12, 10, centred, delta_ratio=0.001) is None
    assert rule.enough_processes([1e6] * 12, 10, centred, delta_ratio=0.02) == "converged"
