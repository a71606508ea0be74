"""What a million items cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.estimate import Estimate
from benchorch.domain.price import usd_of
from benchorch.results.metrics.cost import usd_per_million_items

RATES = st.floats(0.01, 1e6)


def rate(value, low=None, high=None):
    return Estimate(
        value=value, low=low, high=high, level_ratio=0.95, n=5, unit="items_per_s", method="mean"
    )


def test_a_thousand_items_a_second_for_a_dollar_an_hour():
    cost = usd_per_million_items(rate(1000.0, 900.0, 1100.0), 1.0)
    assert cost.value == pytest.approx(1000 / 3600)
    assert cost.low == pytest.approx(1e6 / 1100 / 3600)
    assert cost.high == pytest.approx(1e6 / 900 / 3600)


@given(RATES, RATES, RATES, st.floats(1e-3, 100.0))
def test_the_interval_holds_the_value_as_the_rates_does(a, b, c, usd):
    low, value, high = sorted((a, b, c))
    cost = usd_per_million_items(rate(value, low, high), usd)
    assert cost.low <= cost.value <= cost.high


def test_an_interval_that_is_not_known_stays_unknown():
    cost = usd_per_million_items(rate(10.0), 1.0)
    assert (cost.low, cost.high) == (None, None)
    assert usd_per_million_items(rate(10.0, 0.0, 20.0), 1.0).high is None


def test_each_second_of_a_trial_is_billed():
    assert usd_of(3600, 2.0) == 2.0
    assert usd_of(1, 3600.0) == 1.0
