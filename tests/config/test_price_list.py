"""A region's part of the bundled prices, made from AWS's price list file."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchorch.config.directories import builtin_directory
from benchorch.domain.price import Market
from benchorch.results.pricing.price_book import PriceBook

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("write_prices", ROOT / "scripts/write_prices.py")
assert _spec is not None
assert _spec.loader is not None
script = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(script)


def product(sku: str, kind: str, **other: str) -> dict[str, Any]:
    """In the form of AWS's file; what is not read here is left out."""
    attributes = {
        "servicecode": "AmazonEC2",
        "locationType": "AWS Region",
        "instanceType": kind,
        "tenancy": "Shared",
        "operatingSystem": "Linux",
        "licenseModel": "No License required",
        "operation": "RunInstances",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "preInstalledSw": "NA",
        "regionCode": "eu-west-1",
    }
    return {
        "sku": sku,
        "productFamily": "Compute Instance",
        "attributes": {**attributes, **other},
    }


def term(sku: str, usd: str) -> dict[str, Any]:
    rate = {
        "rateCode": f"{sku}.JRTCKXETXF.6YS6EN2CT7",
        "beginRange": "0",
        "endRange": "Inf",
        "unit": "Hrs",
        "pricePerUnit": {"USD": usd},
        "appliesTo": [],
    }
    return {
        f"{sku}.JRTCKXETXF": {
            "offerTermCode": "JRTCKXETXF",
            "sku": sku,
            "effectiveDate": "2026-11-01T00:00:00Z",
            "priceDimensions": {rate["rateCode"]: rate},
            "termAttributes": {},
        }
    }


def offer() -> dict[str, Any]:
    """A price list with what stands beside a Linux machine's price; its prices are made up."""
    products = [
        (product("A", "g5.xlarge"), "1.1230000000"),
        (product("B", "g5.xlarge", operatingSystem="Windows"), "0.5000000000"),
        (product("C", "g5.xlarge", tenancy="Dedicated"), "0.6000000000"),
        (product("D", "g5.xlarge", capacitystatus="UnusedCapacityReservation"), "0.7000000000"),
        (product("E", "g5.xlarge", preInstalledSw="SQL Std"), "0.8000000000"),
        (product("F", "p4d.24xlarge"), "23.1234567000"),
        (product("G", "x1.32xlarge"), "13.3380000000"),
        (product("H", "r6i.large"), "0.0000000000"),
        ({"sku": "I", "productFamily": "Storage", "attributes": {"regionCode": "eu-west-1"}}, "1"),
    ]
    return {
        "formatVersion": "v1.0",
        "offerCode": "AmazonEC2",
        "version": "20261101000000",
        "publicationDate": "2026-11-01T00:00:00Z",
        "products": {one["sku"]: one for one, _ in products},
        "terms": {"OnDemand": {one["sku"]: term(one["sku"], usd) for one, usd in products}},
    }


def test_the_part_has_linux_machines_on_demand_and_the_price_book_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "index.json"
    file.write_text(json.dumps(offer()))
    assert script.main([str(file)]) == 0
    text = (builtin_directory("conf") / "prices.yaml").read_text() + capsys.readouterr().out
    listed = yaml.safe_load(text)
    assert listed["also"][-1]["usd_per_hour"] == {"g5.xlarge": 1.123, "p4d.24xlarge": 23.1234567}
    bundled = {**listed, "as_of": str(listed["as_of"])}
    for region, usd in (("eu-west-1", 1.123), ("us-east-1", 1.006), ("eu-west-2", None)):
        book = PriceBook(region=region, own={}, source=None, cache=tmp_path, bundled=bundled)
        found = book.snapshot(["g5.xlarge"], {}).of("g5.xlarge", Market.ON_DEMAND)
        assert (found.usd_per_hour if found else None) == usd
        assert found is None or found.region == region


def table() -> str:
    """The same price list in AWS's other form, with the columns that are read and a few more."""
    names = {
        "operatingSystem": "Operating System",
        "tenancy": "Tenancy",
        "capacitystatus": "CapacityStatus",
        "preInstalledSw": "Pre Installed S/W",
        "instanceType": "Instance Type",
        "regionCode": "Region Code",
    }
    content = offer()
    columns = ["SKU", "TermType", "Unit", "PricePerUnit", "Currency", *names.values(), "vCPU"]
    output = io.StringIO()
    rows = csv.writer(output, quoting=csv.QUOTE_ALL)
    rows.writerow(["FormatVersion", "v1.0"])
    rows.writerow(["Disclaimer", "For informational purposes only, says AWS."])
    rows.writerow(["Publication Date", content["publicationDate"]])
    rows.writerow(["Version", content["version"]])
    rows.writerow(["OfferCode", content["offerCode"]])
    rows.writerow(columns)
    for sku, one in content["products"].items():
        (offered,) = content["terms"]["OnDemand"][sku].values()
        (rate,) = offered["priceDimensions"].values()
        known = [one["attributes"].get(name, "") for name in names]
        usd = rate["pricePerUnit"]["USD"]
        rows.writerow([sku, "OnDemand", "Hrs", usd, "USD", *known, "4"])
        rows.writerow([sku, "Reserved", "Hrs", "0.0100000000", "USD", *known, "4"])
        rows.writerow([sku, "Reserved", "Quantity", "900", "USD", *known, "4"])
    return output.getvalue()


def test_both_forms_of_the_price_list_give_the_same_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = []
    for name, text in (("index.json", json.dumps(offer())), ("index.csv", table())):
        (tmp_path / name).write_text(text, newline="")
        assert script.main([str(tmp_path / name)]) == 0
        parts.append(capsys.readouterr().out)
    assert parts[0] == parts[1]
    assert "region: eu-west-1" in parts[0]
    assert "version 20261101000000" in parts[0]


@pytest.mark.parametrize(
    "text", ["{", "{}", '{"products": {}}', "", "a,b\n", '"SKU","Region Code"\n"A","x"\n']
)
def test_another_file_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "index.json"
    file.write_text(text)
    assert script.main([str(file)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("No prices: ")


def test_a_file_without_our_types_prints_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = offer()
    content["products"] = {"G": content["products"]["G"]}
    file = tmp_path / "index.json"
    file.write_text(json.dumps(content))
    assert script.main([str(file)]) == 1
    assert "has a price in eu-west-1" in capsys.readouterr().err
