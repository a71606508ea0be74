"""An interval for a ratio, from the two intervals of its parts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from benchorch.domain.estimate import Estimate
from benchorch.results.compare.machine_change import (
    Difference,
    assumed_session_spread,
    reference_change,
    session_spread,
)
from benchorch.results.compare.ratio_interval import ratio_interval


def estimate(value: float, low: float | None, high: float | None) -> Estimate:
    return Estimate(value=value, low=low, high=high, level_ratio=0.95, n=10, unit="ms", method="")


def test_distances_add_as_standard_errors_do() -> None:
    above, below = (
        estimate(2, 2 * math.exp(-0.3), 2 * math.exp(0.6)),
        estimate(1, math.exp(-0.8), math.exp(0.4)),
    )
    found = ratio_interval(above, below, alpha=0.05)
    assert found is not None
    assert found.low == pytest.approx(math.log(2) - 0.5)  # 0.3 below and 0.4 above
    assert found.high == pytest.approx(math.log(2) + 1.0)  # 0.6 above and 0.8 below


def test_an_interval_of_another_level_counts_for_what_it_is() -> None:
    """1.645 standard errors reach as far at 90 % as 1.96 do at 95 %."""
    side = estimate(1, math.exp(-0.196), math.exp(0.196))
    same = replace(side, low=math.exp(-0.1645), high=math.exp(0.1645), level_ratio=0.9)
    wide, found = (ratio_interval(one, side, alpha=0.05) for one in (side, same))
    assert wide is not None
    assert found is not None
    assert (found.low, found.high) == pytest.approx((wide.low, wide.high), abs=1e-4)
    assert assumed_session_spread((same, 10), (side, 10)).spread == pytest.approx(
        assumed_session_spread((side, 10), (side, 10)).spread, abs=1e-4
    )


def test_swapping_the_two_mirrors_the_interval() -> None:
    one, other = estimate(2, 1.5, 2.2), estimate(3, 2.9, 4)
    there, back = (ratio_interval(*pair, alpha=0.01) for pair in ((one, other), (other, one)))
    assert there is not None
    assert back is not None
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.p_value == pytest.approx(back.p_value)


def test_a_smaller_error_rate_is_a_wider_interval() -> None:
    sides = estimate(2, 1.9, 2.1), estimate(1, 0.9, 1.1)
    wide, narrow = (ratio_interval(*sides, alpha=alpha) for alpha in (0.01, 0.05))
    assert wide is not None
    assert narrow is not None
    assert wide.low < narrow.low < narrow.high < wide.high


def test_what_the_machine_changed_by_may_be_in_the_ratio_or_not() -> None:
    sides = estimate(1.1, 1.09, 1.11), estimate(1, 0.99, 1.01)
    still = ratio_interval(*sides, alpha=0.05)
    changed = ratio_interval(*sides, alpha=0.05, machine=Difference(centre=0.1))
    assert still is not None
    assert changed is not None
    assert still.low > 0
    assert changed.low == pytest.approx(still.low - 0.1)
    assert changed.high == pytest.approx(still.high)
    assert changed.p_value > 0.05 > still.p_value


def test_sessions_that_differ_widen_the_interval_on_both_sides() -> None:
    sides = estimate(1, 0.99, 1.01), estimate(1, 0.99, 1.01)
    spread = session_spread([estimate(v, v * 0.999, v * 1.001) for v in (1, 1.03, 0.98, 1.01)])
    assert spread is not None
    assert spread.freedom == 3
    assert spread.spread == pytest.approx(math.sqrt(2) * 0.0208, rel=0.02)
    wide = ratio_interval(*sides, alpha=0.05, session=spread)
    assert wide is not None
    assert wide.high == pytest.approx(-wide.low)
    assert wide.high > spread.reach(0.05)


def test_sessions_show_whether_the_reference_workloads_explain_what_they_differ_by() -> None:
    machine = [0.0, 0.03, -0.02, 0.01]
    sessions = [estimate(v, v * 0.999, v * 1.001) for v in map(math.exp, machine)]
    spread = session_spread(sessions, machine)
    assert spread is not None
    assert spread.explained
    sides = estimate(1.05, 1.045, 1.055), estimate(1, 0.995, 1.005)
    change = Difference(centre=0.03)
    alone = ratio_interval(*sides, alpha=0.05, machine=change)
    among = ratio_interval(*sides, alpha=0.05, machine=change, session=spread)
    assert alone is not None
    assert among is not None
    assert among.high < alone.high
    assert not session_spread(sessions, [0.0, -0.03, 0.02, -0.01]).explained  # type: ignore[union-attr]


def test_two_sessions_show_no_spread_of_sessions() -> None:
    assert session_spread([estimate(1, 0.9, 1.1)] * 2 + [estimate(1, None, None)]) is None


def test_sessions_whose_interval_reaches_below_0_show_no_spread() -> None:
    assert session_spread([estimate(1, 0.9, 1.1)] * 2 + [estimate(1, -0.1, 2.1)]) is None


@pytest.mark.parametrize("n", [8, 40])
def test_the_change_of_the_reference_workloads_is_known_better_from_more_of_them(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = (np.exp(0.01 * rng.standard_normal((n, 2))).tolist() for _ in "ab")
    found = reference_change(a, b)
    assert found is not None
    assert found.largest_ratio <= 0.05 / math.sqrt(n)


@pytest.mark.parametrize("other", [estimate(1, None, None), estimate(1, 0, 2), estimate(-1, -2, 1)])
def test_without_two_positive_intervals_there_is_none(other: Estimate) -> None:
    assert ratio_interval(estimate(1, 0.9, 1.1), other, alpha=0.05) is None


def test_the_ratio_of_two_p90_is_covered() -> None:
    """2 000 pairs of samples of 200: 95 % has a standard error of 0.5 %, and 93.5 % is three."""
    from benchorch.stats.quantiles import quantile

    rng = np.random.default_rng(0)
    truth = math.log(1.5)
    covered = 0
    for _ in range(2000):
        sides = (rng.lognormal(math.log(scale), 0.3, 200) for scale in (1.5, 1.0))
        above, below = (quantile(side, 0.9, unit="ms") for side in sides)
        assert above is not None
        assert below is not None
        found = ratio_interval(above, below, alpha=0.05)
        assert found is not None
        covered += found.low <= truth <= found.high
    assert covered / 2000 >= 0.935
