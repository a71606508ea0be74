"""Print a part of conf/prices.yaml for one region, from AWS's price list.

    python scripts/write_prices.py index.csv >> conf/prices.yaml
    python scripts/write_prices.py --region eu-west-1 >> conf/prices.yaml

The file is AWS's public one, as CSV or JSON, which needs no account; it is some hundred megabytes,
and as JSON takes about eight times as much memory:
https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/REGION/index.csv
Without a file the Price List API is asked, with the credentials that boto3 finds. Of several parts
for a region the newest counts.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from benchorch.errors import PriceUnavailable
from benchorch.hardware.aws_prices import PRODUCT, AwsPrices, cheapest
from benchorch.journal.chain import UNREADABLE

HARDWARE = Path(__file__).resolve().parents[1] / "conf" / "hardware"
COLUMNS = {
    "TermType": "OnDemand",
    "Currency": "USD",
    "Unit": "Hrs",
    "Operating System": PRODUCT["operatingSystem"],
    "Tenancy": PRODUCT["tenancy"],
    "Pre Installed S/W": PRODUCT["preInstalledSw"],
    "CapacityStatus": PRODUCT["capacitystatus"],
}
"""Columns of the CSV file, and what they hold in a row of a Linux machine on demand."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the part; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, help="a region's price list file")
    parser.add_argument("--region", help="instead of a file, with credentials")
    asked = parser.parse_args(arguments)
    if (asked.file is None) == (asked.region is None):
        parser.error("name a price list file, or a region by --region")
    try:
        text = _from_file(asked.file) if asked.file else _from_api(asked.region)
    except (PriceUnavailable, OSError, csv.Error, *UNREADABLE) as error:
        print(f"No prices: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(text, end="")
    return 0


def kinds() -> list[str]:
    """Every instance type of conf/hardware."""
    nodes = {path.stem: yaml.safe_load(path.read_text()) for path in HARDWARE.glob("*.yaml")}
    return [
        f"{name}.{size}" for name, node in sorted(nodes.items()) for size in node.get("sizes", ())
    ]


def _from_file(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        is_json = file.read(1) == "{"
        file.seek(0)
        if not is_json:
            return _from_csv(path, csv.reader(file))
        offer = json.load(file)
    regions = {one["attributes"].get("regionCode") for one in offer["products"].values()} - {None}
    published, version = offer["publicationDate"], offer["version"]
    return _published(path, regions, published, version, _from_offer(offer))


def _from_offer(offer: Mapping[str, Any]) -> dict[str, float]:
    """Dollars an hour by kind, from the content of the JSON file."""
    wanted, found = set(kinds()), dict[str, float]()
    for sku, product in offer["products"].items():
        attributes = product["attributes"]
        kind = attributes.get("instanceType")
        if kind in wanted and attributes.items() >= PRODUCT.items():
            terms = offer["terms"]["OnDemand"].get(sku, {})
            usd = cheapest([{"terms": {"OnDemand": terms}}])
            if usd is not None:
                found[kind] = min(usd, found.get(kind, usd))
    return found


def _from_csv(path: Path, rows: Iterator[Sequence[str]]) -> str:
    """From lines with a name and a value each, a line of columns, and a line for each price."""
    facts: dict[str, str] = {}
    names: Sequence[str] = ()
    while names[:1] != ["SKU"]:
        names = next(rows, ())
        if len(names) < 2:
            raise ValueError(f"{path} is no price list of AWS's: it has no column SKU")
        facts[names[0]] = names[1]
    wanted, regions, found = set(kinds()), set(), dict[str, float]()
    for one in (dict(zip(names, row, strict=False)) for row in rows):
        regions.add(one.get("Region Code"))
        kind, usd = one["Instance Type"], float(one["PricePerUnit"] or 0)
        if kind in wanted and usd > 0 and one.items() >= COLUMNS.items():
            found[kind] = min(usd, found.get(kind, usd))
    return _published(
        path, regions - {None, ""}, facts["Publication Date"], facts["Version"], found
    )


def _published(
    path: Path, regions: set[str], published: str, version: str, found: Mapping[str, float]
) -> str:
    if len(regions) != 1:
        raise ValueError(f"{path} has {len(regions)} regions; one region's file is expected")
    (region,) = regions
    return part(region, published[:10], f"AWS price list, {region}, version {version}", found)


def _from_api(region: str) -> str:
    today = datetime.now(UTC).date().isoformat()
    found = AwsPrices().on_demand(kinds(), region)
    return part(region, today, f"AWS Price List API, {region}", found)


def part(region: str, as_of: str, source: str, usd_per_hour: Mapping[str, float]) -> str:
    """One element of the list `also` of conf/prices.yaml; ValueError where it would be empty."""
    if not usd_per_hour:
        raise ValueError(f"no type of {HARDWARE} has a price in {region}")
    lines = [f"  - as_of: {as_of}", f"    region: {region}", f"    source: {source}"]
    prices = [f"      {kind}: {usd:.10g}" for kind, usd in sorted(usd_per_hour.items())]
    return "\n".join([*lines, "    usd_per_hour:", *prices, ""])


if __name__ == "__main__":
    sys.exit(main())
