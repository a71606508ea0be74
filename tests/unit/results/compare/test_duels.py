"""Verdicts over pairs of two versions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchorch.cli.commands.gate_report import rows
from benchorch.results.compare.duels import (
    LOOKS,
    DuelTerms,
    Meeting,
    ProcessTimes,
    judge,
    position,
    refused,
)
from benchorch.stats.quantiles import ALPHA
from benchorch.stats.sequential_testing import look_alpha

TERMS = DuelTerms(limit_ratio=0.02, delta_ratio=0.01, trials=1)


def meetings(
    change: float, *, n: int = 12, sd: float = 0.002, first: float = 0.0, floor: float | None = None
) -> list[Meeting]:
    """Pairs whose new side takes `change` longer, and whichever is first by `first` longer."""
    rng = np.random.default_rng(3)
    found = []
    for place in range(n):
        ahead = place % 2 == 0
        shift = 0.5 * first if ahead else -0.5 * first
        new = 1e6 * (1 + change) * math.exp(shift + sd * rng.standard_normal())
        old = 1e6 * math.exp(-shift + sd * rng.standard_normal())
        added = change if floor is None else floor
        found.append(
            Meeting(
                new=ProcessTimes(median=new, floor=9e5 * (1 + added) * math.exp(shift)),
                old=ProcessTimes(median=old, floor=9e5 * math.exp(-shift)),
                new_first=ahead,
            )
        )
    return found


@pytest.mark.parametrize(
    ("change", "state", "verdict"),
    [
        (0.0, "pass", "equivalent"),
        (0.05, "regression", "slower"),
        (-0.05, "pass", "faster"),
    ],
)
def test_a_clear_case_has_its_state_and_its_verdict(change, state, verdict) -> None:
    found = judge("eager", meetings(change), TERMS)
    assert (found.state, found.judged.verdict) == (state, verdict)
    assert found.judged.ratio is not None
    assert found.judged.ratio.value == pytest.approx(1 + change, abs=0.006)


def test_coming_first_is_neither_in_the_ratio_nor_in_its_width() -> None:
    plain = judge("eager", meetings(0.05), TERMS).judged.ratio
    found = judge("eager", meetings(0.05, first=0.04), TERMS).judged.ratio
    assert plain is not None
    assert found is not None
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high))
    first = position(meetings(0.05, first=0.04))
    assert first is not None
    assert first.value == pytest.approx(1.04, abs=0.005)


def test_the_floor_decides_where_the_median_cannot() -> None:
    found = judge("eager", meetings(0.05, sd=0.2), TERMS)
    assert found.state == "regression"
    assert "by the floor" in found.remark
    median, floor = rows([found])
    assert (median[-1], floor[-1]) == ("", "REGRESSION")


def test_the_median_s_own_verdict_is_on_its_row() -> None:
    median, floor = rows([judge("eager", meetings(0.05), TERMS)])
    assert (median[-1], floor[-1]) == ("REGRESSION", "")


def test_where_nothing_can_tell_the_number_of_pairs_that_would_is_named() -> None:
    pairs = [
        Meeting(
            new=ProcessTimes(median=one.new.median),
            old=ProcessTimes(median=one.old.median),
            new_first=True,
        )
        for one in meetings(0.05, sd=0.04)
    ]
    found = judge("eager", pairs, TERMS)
    assert found.state == "unclear"
    assert found.processes_needed is not None
    assert found.remark.startswith(f"some {found.processes_needed} pairs would tell")


def test_where_median_and_floor_contradict_no_pair_is_to_be_interleaved_again() -> None:
    found = judge("eager", meetings(0.1, floor=0.0), TERMS)
    assert (found.state, found.processes_needed) == ("unclear", None)
    assert found.remark == (
        "the median is beyond the limit and the floor is not: "
        "only part of the calls changed, or there are too few pairs (--pairs)"
    )


def test_two_pairs_are_no_evidence() -> None:
    found = judge("eager", meetings(0.5, n=2), TERMS)
    assert found.state == "unclear"
    assert "fewer than 5 pairs" in found.remark


def test_the_level_is_of_all_looks_statistics_and_trials() -> None:
    several = DuelTerms(limit_ratio=0.02, delta_ratio=0.01, trials=5)
    assert several.alpha == look_alpha(LOOKS, ALPHA / 10) < look_alpha(LOOKS) / 10


def test_a_trial_that_a_side_cannot_run_is_refused() -> None:
    found = refused("eager", "old: it failed", TERMS)
    assert (found.state, found.judged.reason) == ("refused", "old: it failed")


@pytest.mark.parametrize("n", range(1, LOOKS[0]))
@pytest.mark.parametrize("change", [0.0, 0.5])
def test_fewer_pairs_than_the_first_analysis_decide_nothing(n: int, change: float) -> None:
    """However alike they are: the law that would make three enough is what three cannot show."""
    found = judge("eager", meetings(change, n=n, sd=1e-5), TERMS)
    assert found.state == "unclear"
    assert f"fewer than {LOOKS[0]} pairs" in found.remark


def test_a_duel_that_is_surely_faster_by_an_unknown_factor_does_not_pass() -> None:
    rng = np.random.default_rng(1)
    found = judge(
        "eager",
        [
            Meeting(
                new=ProcessTimes(median=1e6 * math.exp(-3 + 1.5 * rng.standard_normal())),
                old=ProcessTimes(median=1e6),
                new_first=place % 2 == 0,
            )
            for place in range(8)
        ],
        TERMS,
    )
    ratio = found.judged.ratio
    assert ratio is not None
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.high < 1.02
    assert ratio.high > 2 * ratio.low
    assert found.state == "unclear"
