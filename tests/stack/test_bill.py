"""What a forgotten stack costs is said before it is made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from stack_bill import BESIDES_USD, LATE_MINUTES, bill

M7I_LARGE, G5_XLARGE, R6I_LARGE = 0.1008, 1.006, 0.126


def test_the_default_stack_costs_its_head_and_its_whole_fleet_for_a_time_to_live():
    found = bill({})
    hour = M7I_LARGE + G5_XLARGE + 2 * R6I_LARGE + 4 * BESIDES_USD
    assert found.hour_usd == pytest.approx(hour)
    assert found.worst_usd == pytest.approx(hour * (480 + LATE_MINUTES) / 60)
    assert "at most 1.52 USD an hour" in str(found)


@pytest.mark.parametrize("fleet", ['{"r6i.large" = 3}', '{"r6i.large":3}', "{ r6i.large = 3 }"])
def test_the_fleet_is_understood_in_terraforms_notation_and_in_jsons(fleet):
    found = bill({"fleet": fleet, "ttl_minutes": "60"})
    hour = M7I_LARGE + 3 * R6I_LARGE + 4 * BESIDES_USD
    assert found.worst_usd == pytest.approx(hour * (60 + LATE_MINUTES) / 60)


def test_a_type_without_a_price_is_named():
    assert "without x9.large, whose price is unknown" in str(bill({"fleet": '{"x9.large"=1}'}))
