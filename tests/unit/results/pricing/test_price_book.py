"""Which price counts, and when an older one does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from benchorch.config.directories import builtin_directory
from benchorch.domain.price import Market
from benchorch.errors import PriceUnavailable
from benchorch.interfaces.price_source import PriceSource, SpotPrice
from benchorch.results.pricing.price_book import PriceBook, is_sold_in_blocks

BUNDLED = yaml.safe_load((builtin_directory("conf") / "prices.yaml").read_text())
BUNDLED["as_of"] = str(BUNDLED["as_of"])


@dataclass
class Told(PriceSource):
    """A source that tells what a test gave it, and counts how often it was asked."""

    usd: dict[str, float] = field(default_factory=lambda: {"g5.xlarge": 1.1})
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def on_demand(self, kinds, region):
        self.asked.append(tuple(sorted(kinds)))
        return {kind: self.usd[kind] for kind in kinds if kind in self.usd}

    def spot(self, kinds, region):
        return {kind: SpotPrice(self.usd[kind] / 2, self.usd[kind] / 3) for kind in kinds}


class Silent(PriceSource):
    """A source that cannot be reached."""

    def on_demand(self, kinds, region):
        raise PriceUnavailable("AWS did not tell its prices: no route.")

    spot = on_demand


def book(cache, source=None, own=None, region="us-east-1", as_of=BUNDLED["as_of"]):
    """The book; `as_of` is the date of its list."""
    bundled = {**BUNDLED, "as_of": as_of}
    return PriceBook(region=region, own=own or {}, source=source, cache=cache, bundled=bundled)


def on_demand(snapshot, kind="g5.xlarge"):
    return snapshot.of(kind, Market.ON_DEMAND)


def age(cache, **by):
    for file in cache.glob("prices-*.json"):
        prices = json.loads(file.read_text())
        for price in prices.values():
            price["as_of"] = (datetime.now(UTC) - timedelta(**by)).isoformat()
        file.write_text(json.dumps(prices))


def test_the_users_own_price_comes_first_and_nobody_is_asked(tmp_path):
    source = Told()
    found = book(tmp_path, source, own={"g5.xlarge": 0.7}).snapshot(["g5.xlarge"], {})
    assert (on_demand(found).usd_per_hour, on_demand(found).source) == (0.7, "config")
    assert found.of("g5.xlarge", Market.SPOT).usd_per_hour == 0.7
    assert not source.asked


def test_a_fetched_price_is_used_again_for_a_day_and_then_asked_for_again(tmp_path):
    source = Told()
    for _ in range(2):
        found = book(tmp_path, source).snapshot(["g5.xlarge"], {})
        assert (on_demand(found).usd_per_hour, on_demand(found).source) == (1.1, "pricing api")
    assert source.asked == [("g5.xlarge",)]
    age(tmp_path, hours=25)
    book(tmp_path, source).snapshot(["g5.xlarge"], {})
    assert len(source.asked) == 2


def test_spot_prices_keep_the_median_and_the_cheapest_zone(tmp_path):
    spot = book(tmp_path, Told()).snapshot(["g5.xlarge"], {}).of("g5.xlarge", Market.SPOT)
    assert spot.usd_per_hour == pytest.approx(0.55)
    assert spot.least_usd_per_hour == pytest.approx(1.1 / 3)


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_a_spot_price_that_no_discount_explains_is_not_believed(tmp_path, region):
    """An emulated AWS told one of a hundred-thousandth of a dollar, and it was recorded."""

    class Cheap(Told):
        def spot(self, kinds, region):
            return dict.fromkeys(kinds, SpotPrice(1e-5, 1e-5))

    found = book(tmp_path, Cheap(), region=region).snapshot(["g5.xlarge"], {})
    assert found.of("g5.xlarge", Market.SPOT) is None
    assert any("reports 1e-05 USD an hour" in warning for warning in found.warnings)


def test_where_nobody_answers_an_old_price_is_used_with_a_warning(tmp_path):
    book(tmp_path, Told()).snapshot(["g5.xlarge"], {})
    age(tmp_path, days=9)
    found = book(tmp_path, Silent(), as_of="2020-01-01").snapshot(["g5.xlarge"], {})
    assert on_demand(found).usd_per_hour == 1.1
    assert any("no route" in warning for warning in found.warnings)


def test_an_old_price_warns_with_its_date_where_nobody_is_asked(tmp_path):
    book(tmp_path, Told()).snapshot(["g5.xlarge"], {})
    assert not book(tmp_path).snapshot(["g5.xlarge"], {}).warnings
    age(tmp_path, days=200)
    found = book(tmp_path, as_of="2020-01-01").snapshot(["g5.xlarge"], {})
    assert on_demand(found).usd_per_hour == 1.1
    then = on_demand(found).as_of[:10]
    for market in ("on-demand", "spot"):
        priced = f"g5.xlarge: priced by the {market} price of {then}, when AWS was last queried"
        assert any(warning.startswith(priced) for warning in found.warnings)


def test_a_list_that_is_newer_than_an_old_price_counts(tmp_path):
    book(tmp_path, Told()).snapshot(["g5.xlarge"], {})
    age(tmp_path, days=200)
    today = datetime.now(UTC).date().isoformat()
    found = book(tmp_path, as_of=today).snapshot(["g5.xlarge"], {})
    assert on_demand(found).usd_per_hour == 1.006
    assert any(f"priced by the list of {today}" in warning for warning in found.warnings)
    spot = found.of("g5.xlarge", Market.SPOT)
    assert (spot.usd_per_hour, spot.source) == (pytest.approx(0.55), "spot history")


def test_without_anybody_to_ask_the_dated_list_counts_and_says_its_date(tmp_path):
    found = book(tmp_path).snapshot(["g5.xlarge"], {})
    assert on_demand(found).usd_per_hour == 1.006
    assert on_demand(found).as_of == "2026-09-24"
    assert found.of("g5.xlarge", Market.SPOT) is None
    assert any("2026-09-24" in warning for warning in found.warnings)


def test_a_family_that_is_priced_by_the_virtual_cpu_follows_its_size(tmp_path):
    found = book(tmp_path).snapshot(["r6i.4xlarge"], {"r6i.4xlarge": 16})
    assert on_demand(found, "r6i.4xlarge").usd_per_hour == pytest.approx(1.008)


def test_a_kind_or_region_that_nobody_knows_has_no_price_rather_than_none_to_pay(tmp_path):
    assert on_demand(book(tmp_path).snapshot(["local"], {}), "local") is None
    assert on_demand(book(tmp_path, region="eu-west-1").snapshot(["g5.xlarge"], {})) is None


@pytest.mark.parametrize("told", [0.0, -1.0, 3.2, 0.1])
def test_a_price_of_nothing_or_far_from_the_last_known_is_not_believed(tmp_path, told):
    found = book(tmp_path, Told({"g5.xlarge": told})).snapshot(["g5.xlarge"], {})
    assert on_demand(found).usd_per_hour == 1.006
    assert any("rejected" in warning for warning in found.warnings)


def test_a_cache_that_is_broken_or_cannot_be_written_costs_nothing_but_a_request(tmp_path):
    for file in ("prices-us-east-1-on_demand.json", "prices-us-east-1-spot.json"):
        (tmp_path / file).write_text('{"g5.xlarge": [1]}')
    found = book(tmp_path, Told()).snapshot(["g5.xlarge"], {})
    assert on_demand(found).usd_per_hour == 1.1
    blocked = tmp_path / "a file"
    blocked.write_text("")
    assert on_demand(book(blocked, Told()).snapshot(["g5.xlarge"], {})).usd_per_hour == 1.1


def test_every_size_that_is_declared_has_a_price(tmp_path):
    for file in (builtin_directory("conf") / "hardware").glob("*.yaml"):
        sizes = yaml.safe_load(file.read_text()).get("sizes", {})
        vcpus = {f"{file.stem}.{size}": int(told["vcpus"]) for size, told in sizes.items()}
        found = book(tmp_path).snapshot(list(vcpus), vcpus)
        assert set(found.on_demand) == {kind for kind in vcpus if not is_sold_in_blocks(kind)}
