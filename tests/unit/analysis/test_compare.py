from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.analysis.compare import compare

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
    assert "one process" in found.reason


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
