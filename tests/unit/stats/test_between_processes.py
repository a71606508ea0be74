from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.measurement import Observations
from benchorch.stats.between_processes import (
    half_width_ratio,
    median_query_ns,
    over_processes,
    steady_queries_ns,
)
from benchorch.stats.moderated_variance import ASSUMED, usual_spread

positive = st.floats(1e-3, 1e9)


def test_three_processes_alone_have_students_t_about_the_median_on_logarithms() -> None:
    # Logarithms 0, 1, 2: s = 1, t(0.975, 2) = 4.302653; a median of three scatters by 0.67 s.
    found = over_processes([1.0, math.e, math.e**2], unit="ms")
    assert found is not None
    reach = 4.302652729911275 * 0.6698
    assert found.value == pytest.approx(math.e)
    assert (found.low, found.high) == pytest.approx((math.exp(1 - reach), math.exp(1 + reach)))


def test_six_processes_have_order_statistics_of_the_median() -> None:
    # Rank 1 errs in 1 of 32, rank 2 in 7 of 32: a tenth of the way in error is 5/14 in ranks.
    found = over_processes([10.0, 11.0, 12.0, 13.0, 14.0, 15.0], unit="ms")
    assert found is not None
    low, high = 10 * 1.1 ** (5 / 14), 15 * (14 / 15) ** (5 / 14)
    assert (found.value, found.low, found.high) == (12.5, pytest.approx(low), pytest.approx(high))
    assert found.seen == (10.0, 15.0)


def test_nothing_observed_gives_nothing() -> None:
    assert over_processes([], unit="ms") is None
    assert half_width_ratio([], 0.05) is None


def test_one_process_has_no_interval() -> None:
    found = over_processes([5.0], unit="ms")
    assert found is not None
    assert (found.value, found.low, found.high, found.n) == (5.0, None, None, 1)
    assert half_width_ratio([5.0], 0.05) is None


def test_two_processes_have_their_values_and_no_interval() -> None:
    found = over_processes([1.0, 1.02], unit="ms")
    assert found is not None
    assert (found.low, found.high, found.seen) == (None, None, (1.0, 1.02))


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_value_that_is_no_number_gives_nothing(wrong: float) -> None:
    assert over_processes([1.0, wrong], unit="ms") is None
    assert half_width_ratio([1.0, wrong], 0.05) is None


@pytest.mark.parametrize("wrong", [0.0, -1.0])
def test_a_value_without_a_logarithm_costs_the_interval(wrong: float) -> None:
    found = over_processes([1.0, 2.0, wrong], unit="ms")
    assert found is not None
    assert (found.value, found.low) == (1.0, None)
    assert half_width_ratio([1.0, 2.0, 3.0, 4.0, wrong], 0.05) is None


@given(st.lists(positive, min_size=3, max_size=12), st.floats(1e-3, 1e3), st.integers(0, 99))
def test_scale_scales_and_order_does_not_matter(
    values: list[float], factor: float, seed: int
) -> None:
    found = over_processes(values, unit="ms")
    scaled = over_processes([v * factor for v in values], unit="ms")
    shuffled = over_processes(np.random.default_rng(seed).permutation(values), unit="ms")
    assert found is not None
    assert scaled is not None
    assert shuffled is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx(
        (found.value * factor, found.low * factor, found.high * factor), rel=1e-6
    )
    assert (shuffled.low, shuffled.high) == pytest.approx((found.low, found.high), rel=1e-6)


def test_the_headline_of_a_process_is_per_call_and_steady() -> None:
    observations = Observations(
        durations_ns=(9000, 400, 200, 400), started_ns=(0, 1, 2, 3), calls_per_block=4,
        items_per_call=1,
    )  # fmt: skip
    assert median_query_ns(observations, 1) == 100.0
    assert median_query_ns(observations, None) == 100.0
    assert median_query_ns(observations, 3) == 100.0


def test_several_queries_in_a_block_share_its_time_and_a_query_keeps_its_calls() -> None:
    observed = Observations(
        durations_ns=(800, 1600), started_ns=(0, 800), calls_per_block=8, items_per_call=1,
        calls_per_query=4,
    )  # fmt: skip
    assert observed.queries_per_block == 2
    assert steady_queries_ns(observed, None).tolist() == [400.0, 800.0]
    assert median_query_ns(observed, None) == 600.0


def test_a_scheduled_query_counts_from_when_it_was_due() -> None:
    observed = Observations(
        durations_ns=(10, 10, 10), started_ns=(0, 50, 60), calls_per_block=1, items_per_call=1,
        scheduled_ns=(0, 20, 40),
    )  # fmt: skip
    assert steady_queries_ns(observed, 0).tolist() == [10.0, 40.0, 30.0]
    assert median_query_ns(observed, 1) == 35.0


def test_a_process_that_saw_nothing_has_no_median() -> None:
    nothing = Observations(durations_ns=(), started_ns=(), calls_per_block=1, items_per_call=1)
    assert math.isnan(median_query_ns(nothing, None))


def test_a_smaller_error_rate_takes_a_wider_interval_and_more_processes() -> None:
    values = [1.0, 1.1, 1.05, 1.02, 1.07, 1.04, 1.03, 1.06]
    assert half_width_ratio(values, 0.0115) > half_width_ratio(values, 0.05)  # type: ignore[operator]
    assert half_width_ratio(values[:7], 0.0115) is None


@given(st.lists(positive, min_size=5, max_size=12))
def test_the_half_width_is_that_of_the_interval_that_is_shown(values: list[float]) -> None:
    found = over_processes(values, unit="ms")
    half_width = half_width_ratio(values, 0.05)
    assert found is not None
    assert half_width is not None
    assert found.high / found.low == pytest.approx((1 + half_width) ** 2, rel=1e-6)  # type: ignore[operator]


def test_values_as_far_apart_as_can_be_have_a_finite_interval() -> None:
    found = over_processes([1e-300, 1.0, 1e300], unit="ms")
    assert found is not None
    assert 0 < found.low < found.high < math.inf  # type: ignore[operator]


def test_the_spread_of_other_trials_narrows_three_processes_and_widens_lucky_ones() -> None:
    usual = usual_spread([[1.0, 1.01, 1.02], [2.0, 2.03, 1.99], [3.0, 3.02, 2.98], [1.0, 1.02]])
    assert not usual.assumed
    alone, among = (
        over_processes([1.0, 1.01, 1.02], unit="ms", usual=one) for one in (ASSUMED, usual)
    )
    lucky = over_processes([1.0, 1.0, 1.0], unit="ms", usual=usual)
    assert among.high / among.low < alone.high / alone.low  # type: ignore[union-attr,operator]
    assert lucky.high / lucky.low > 1.01  # type: ignore[union-attr,operator]


def test_two_other_trials_say_nothing_of_how_spreads_differ() -> None:
    assert usual_spread([[1.0, 1.1], [1.0, 1.2], [1.0]]) is ASSUMED


@pytest.mark.parametrize("n", [5, 6, 8, 10, 20, 40])
@pytest.mark.parametrize(("share", "slower"), [(0.7, 0.1), (0.8, 0.3), (0.5, 0.1), (0.6, 0.3)])
def test_processes_at_two_levels_are_covered_however_many_there_are(
    n: int, share: float, slower: float
) -> None:
    rng = np.random.default_rng(n)
    levels = 1 + slower * (rng.random((1000, n)) > share)
    drawn = levels * np.exp(0.01 * rng.standard_normal((1000, n)))
    # The median of the fast ones' upper part, or the middle between two equally common levels.
    truth = 1 + slower / 2 if share == 0.5 else math.exp(0.01 * NormalDist().inv_cdf(0.5 / share))
    found = [over_processes(row, unit="ms") for row in drawn]
    covered = np.mean([one.low <= truth <= one.high for one in found])  # type: ignore[union-attr,operator]
    assert covered >= 0.935 - 2 * math.sqrt(0.935 * 0.065 / 1000)


@pytest.mark.parametrize("n", [6, 7, 10])
def test_a_few_processes_far_away_do_not_hide_the_gap_between_the_others(n: int) -> None:
    """2 000 trials at levels 0, 4 and 30 %: 93.5 % less three standard errors is 91.8 %."""
    rng = np.random.default_rng(n)
    truth = 1 + 0.004 * NormalDist().inv_cdf(0.5 / 0.55)
    held = 0
    for _ in range(2000):
        level = rng.choice([1.0, 1.04, 1.3], size=n, p=[0.55, 0.25, 0.2])
        found = over_processes(level * np.exp(0.004 * rng.standard_normal(n)), unit="ms")
        assert found is not None
        held += found.low <= truth <= found.high  # type: ignore[operator]
    assert held / 2000 >= 0.918
