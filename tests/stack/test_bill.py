"""What a forgotten stack costs is said before it is made."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from benchorch.domain.codec import encode
from benchorch.domain.price import Market, Price
from benchorch.executors.scheduling.spending import HEAD_IDLE_S, IDLE_S
from benchorch.files import write_json

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from stack_bill import BESIDES_USD, LATE_MINUTES, VARIABLES, bill

M7I_LARGE, G5_XLARGE, R6I_LARGE = 0.1008, 1.006, 0.126
HERE, FRANKFURT = "us-east-1", "eu-central-1"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """No price that was asked before."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "benchorch"


@pytest.mark.parametrize(
    ("variable", "counted_s"), [("idle_minutes", IDLE_S), ("head_idle_minutes", HEAD_IDLE_S)]
)
def test_a_plan_counts_the_idle_end_that_the_stack_has_by_default(variable, counted_s):
    text = VARIABLES.read_text()
    (minutes,) = re.findall(rf'variable "{variable}" {{[^}}]*default\s*= (\d+)', text)
    assert int(minutes) * 60 == counted_s


def test_the_default_stack_costs_its_head_and_its_whole_fleet_for_a_time_to_live():
    found = bill({}, HERE)
    hour = M7I_LARGE + G5_XLARGE + 2 * R6I_LARGE + 4 * BESIDES_USD
    assert found.hour_usd == pytest.approx(hour)
    assert found.worst_usd == pytest.approx(hour * (480 + LATE_MINUTES) / 60)
    assert "at most 1.52 USD an hour" in str(found)


@pytest.mark.parametrize("fleet", ['{"r6i.large" = 3}', '{"r6i.large":3}', "{ r6i.large = 3 }"])
def test_the_fleet_is_understood_in_terraforms_notation_and_in_jsons(fleet):
    found = bill({"fleet": fleet, "ttl_minutes": "60"}, HERE)
    hour = M7I_LARGE + 3 * R6I_LARGE + 4 * BESIDES_USD
    assert found.worst_usd == pytest.approx(hour * (60 + LATE_MINUTES) / 60)


def test_workers_of_the_heads_own_type_are_counted_beside_it():
    found = bill({"fleet": '{"m7i.large"=5}'}, HERE)
    assert found.hour_usd == pytest.approx(6 * (M7I_LARGE + BESIDES_USD))


def test_a_type_without_a_price_is_named():
    told = str(bill({"fleet": '{"x9.large"=1}'}, HERE))
    assert "without x9.large, whose price there is unknown" in told
    assert "at most" not in told


def test_a_newer_part_of_the_list_counts_too():
    assert bill({"fleet": '{"r8i.large"=1}'}, HERE).unknown == ()


def test_another_regions_dollars_are_not_those_of_the_list():
    told = str(bill({}, FRANKFURT))
    assert "without g5.xlarge, m7i.large, r6i.large, whose price there is unknown" in told
    assert "at least 0.16 USD an hour" in told  # addresses and disks alone


def test_prices_that_aws_was_asked_for_count_in_their_region(state):
    usd = {"m7i.large": 0.1208, "g5.xlarge": 1.258, "r6i.large": 0.152}
    known = {
        kind: encode(
            Price(
                kind=kind,
                market=Market.ON_DEMAND,
                usd_per_hour=each,
                region=FRANKFURT,
                as_of="2026-11-25T00:00:00+00:00",
                source="pricing api",
            )
        )
        for kind, each in usd.items()
    }
    (state / "prices").mkdir(parents=True)
    write_json(state / "prices" / f"prices-{FRANKFURT}-on_demand.json", known)
    hour = usd["m7i.large"] + usd["g5.xlarge"] + 2 * usd["r6i.large"] + 4 * BESIDES_USD
    assert bill({}, FRANKFURT).hour_usd == pytest.approx(hour)
