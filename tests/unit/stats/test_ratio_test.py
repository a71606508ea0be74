from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.stats.pairs import Pair
from benchorch.stats.ratio_test import compare, compare_pairs

times = st.lists(st.floats(0.1, 1e4), min_size=2, max_size=10)
FLIPPED = {"faster": "slower", "slower": "faster"}


def test_the_interval_is_welchs_on_logarithms() -> None:
    # Logarithms (0, 2) and (5, 5, 8): means 1 and 6, variances 2 and 3, so shares 1 and 1;
    # degrees of freedom 4 / (1/1 + 1/2) = 8/3, whose two-sided t at 5 % is 3.4154.
    ours = [math.exp(x) for x in (0, 2)]
    theirs = [math.exp(x) for x in (5, 5, 8)]
    found = compare(ours, theirs)
    assert found is not None
    assert found.ratio.low is not None
    assert found.ratio.high is not None
    assert math.log(found.ratio.value) == pytest.approx(5)
    reach = math.log(found.ratio.high / found.ratio.value)
    assert reach / math.sqrt(2) == pytest.approx(3.415, abs=0.01)
    assert found.ratio.value / found.ratio.low == pytest.approx(math.exp(reach))


@pytest.mark.parametrize(
    ("candidate", "verdict"), [(0.5, "faster"), (2.0, "slower"), (1.0, "equivalent")]
)
def test_a_clear_case_has_its_verdict(candidate: float, verdict: str) -> None:
    spread = np.array([0.999, 1.0, 1.001, 1.0005, 0.9995])
    found = compare(candidate * spread, spread)
    assert found is not None
    assert found.verdict == verdict
    assert found.reason == ""


def test_an_unclear_case_says_why() -> None:
    found = compare([1.0, 1.2, 0.9], [1.0, 1.1, 0.95])
    assert found is not None
    assert found.verdict == "inconclusive"
    assert "no difference" in found.reason


def test_one_process_gives_a_ratio_without_a_verdict() -> None:
    found = compare([1.0], [2.0, 2.0])
    assert found is not None
    assert (found.ratio.value, found.ratio.low, found.verdict) == (2.0, None, "inconclusive")
    assert "a single process" in found.reason


def test_processes_without_any_spread_decide_by_their_ratio() -> None:
    assert compare([1.0] * 5, [1.0] * 5).verdict == "equivalent"  # type: ignore[union-attr]
    assert compare([1.0] * 5, [2.0] * 5).verdict == "faster"  # type: ignore[union-attr]


@pytest.mark.parametrize("wrong", [[], [math.nan, 1.0], [0.0, 1.0], [-1.0, 1.0], [math.inf, 1.0]])
def test_nothing_to_compare_gives_nothing(wrong: list[float]) -> None:
    assert compare(wrong, [1.0, 1.0]) is None
    assert compare([1.0, 1.0], wrong) is None


@given(times, times)
def test_swapping_the_two_inverts_the_ratio_and_flips_the_verdict(
    ours: list[float], theirs: list[float]
) -> None:
    one, other = compare(ours, theirs), compare(theirs, ours)
    assert one is not None
    assert other is not None
    assert one.ratio.value * other.ratio.value == pytest.approx(1)
    assert one.ratio.low * other.ratio.high == pytest.approx(1)  # type: ignore[operator]
    assert other.verdict == FLIPPED.get(one.verdict, one.verdict)


@given(times, times, st.floats(1e-3, 1e3))
def test_another_unit_changes_nothing(
    ours: list[float], theirs: list[float], factor: float
) -> None:
    one = compare(ours, theirs)
    other = compare([factor * x for x in ours], [factor * x for x in theirs])
    assert one is not None
    assert other is not None
    assert one.ratio.value == pytest.approx(other.ratio.value, rel=1e-6)


def test_a_drift_that_may_have_been_widens_the_interval_on_both_sides() -> None:
    ours, theirs = [1.0, 1.001, 0.999, 1.0], [1.03, 1.031, 1.029, 1.03]
    still, drifting = compare(ours, theirs), compare(ours, theirs, drift_ratio=0.02)
    assert still is not None
    assert drifting is not None
    assert drifting.ratio.value == still.ratio.value
    assert drifting.ratio.low == pytest.approx(still.ratio.low / 1.02)  # type: ignore[operator]
    assert drifting.ratio.high == pytest.approx(still.ratio.high * 1.02)  # type: ignore[operator]
    assert (still.verdict, drifting.verdict) == ("faster", "faster")
    assert compare(ours, theirs, drift_ratio=0.05).verdict == "inconclusive"  # type: ignore[union-attr]
    assert compare(ours, theirs, drift_ratio=0.05).p_value == 1.0  # type: ignore[union-attr]


@given(times, times, st.floats(0.0, 0.5))
def test_a_verdict_of_a_difference_and_its_p_value_say_the_same(
    ours: list[float], theirs: list[float], drift_ratio: float
) -> None:
    found = compare(ours, theirs, drift_ratio=drift_ratio, alpha=0.03)
    assert found is not None
    assert found.p_value is not None
    if abs(found.p_value - 0.03) > 1e-6:
        assert (found.verdict in FLIPPED) == (found.p_value < 0.03)


def pairs_of(log_ratios: Sequence[float]) -> list[Pair]:
    return [Pair(1.0, math.exp(x)) for x in log_ratios]


def test_the_interval_of_pairs_is_students_on_log_ratios() -> None:
    # Mean 2, s = 1, t(0.975, 2) = 4.302653.
    found = compare_pairs(pairs_of([1, 2, 3]), "adjacent")
    assert found is not None
    reach = 4.302652729911275 / math.sqrt(3)
    assert math.log(found.ratio.value) == pytest.approx(2)
    assert math.log(found.ratio.low or 0) == pytest.approx(2 - reach)
    assert math.log(found.ratio.high or 0) == pytest.approx(2 + reach)
    assert (found.ratio.n, found.design, found.verdict) == (3, "adjacent", "inconclusive")


@pytest.mark.parametrize(
    ("n", "verdict"), [(1, "inconclusive"), (2, "inconclusive"), (3, "faster")]
)
def test_three_pairs_are_the_fewest_that_decide_and_five_that_say_how_much(
    n: int, verdict: str
) -> None:
    found = compare_pairs(pairs_of([0.7, 0.701, 0.702][:n]), "alternated")
    assert found is not None
    assert (found.verdict, found.material) == (verdict, False)
    assert ("of the 3 pairs" in found.reason) is (n < 3)
    more = compare_pairs(pairs_of([0.7, 0.701, 0.702, 0.7, 0.7]), "alternated")
    assert more is not None
    assert more.material


def test_no_pairs_give_nothing() -> None:
    assert compare_pairs([], "adjacent") is None


@pytest.mark.parametrize("truth", [0.0, 0.005, 0.02])
def test_as_many_pairs_as_predicted_settle_it_about_half_of_the_time(truth: float) -> None:
    rng = np.random.default_rng(0)
    settled = []
    for _ in range(200):
        few = truth + 0.02 * rng.standard_normal(8)
        found = compare_pairs(pairs_of(few), "adjacent")
        assert found is not None
        if found.pairs_needed is not None:
            more = [*few, *(truth + 0.02 * rng.standard_normal(found.pairs_needed))]
            settled.append(compare_pairs(pairs_of(more), "adjacent").verdict != "inconclusive")  # type: ignore[union-attr]
    assert len(settled) > 50
    assert 0.3 <= np.mean(settled) <= 0.85


def test_what_is_settled_needs_no_more_pairs() -> None:
    assert compare_pairs(pairs_of([0.5, 0.51, 0.5]), "adjacent").pairs_needed is None  # type: ignore[union-attr]


def test_two_far_apart_pairs_have_a_finite_interval() -> None:
    found = compare_pairs([Pair(1e-300, 1e300), Pair(1.0, 1.0)], "adjacent", alpha=1e-9)
    assert found is not None
    assert 0 < found.ratio.low < found.ratio.high < math.inf  # type: ignore[operator]


def test_identical_code_is_rarely_called_different_and_the_ratio_is_covered() -> None:
    rng = np.random.default_rng(0)
    decided = covered = 0
    for _ in range(2000):
        ours, theirs = rng.lognormal(0, 0.01, 8), rng.lognormal(0, 0.03, 6)
        found = compare(ours, theirs)
        assert found is not None
        decided += found.verdict in FLIPPED
        covered += found.ratio.low <= 1 <= found.ratio.high  # type: ignore[operator]
    assert decided / 2000 <= 0.06
    assert covered / 2000 >= 0.94


def test_a_difference_of_exactly_what_matters_is_rarely_called_none() -> None:
    rng = np.random.default_rng(1)
    equal = 0
    for _ in range(2000):
        found = compare(rng.lognormal(0, 0.004, 10), 1.01 * rng.lognormal(0, 0.004, 10))
        assert found is not None
        equal += found.verdict == "equivalent"
    assert equal / 2000 <= 0.05


def test_the_order_of_a_pair_is_in_neither_the_ratio_nor_its_spread() -> None:
    # Log ratios 3, 5 where the candidate came first, -1, -3 where it came second: means 4 and -2,
    # their mean 1; pooled variance (2 + 2) / 2 = 2, standard error sqrt(2 (1/2 + 1/2)) / 2.
    pairs = [Pair(1.0, math.exp(x)) for x in (3, -1, 5, -3)]
    found = compare_pairs(pairs, "adjacent", first=[True, False, True, False])
    assert found is not None
    assert found.ratio.high is not None
    assert math.log(found.ratio.value) == pytest.approx(1)
    reach = math.log(found.ratio.high / found.ratio.value)
    assert reach == pytest.approx(4.3027 * math.sqrt(2) / 2, rel=1e-4)  # t of 2 degrees


@pytest.mark.parametrize("first", [(), (True, True, True)])
def test_with_one_order_the_pairs_are_compared_as_they_are(first) -> None:
    pairs = [Pair(1.0, math.exp(x)) for x in (1, 2, 4)]
    assert compare_pairs(pairs, "adjacent", first=first) == compare_pairs(pairs, "adjacent")
