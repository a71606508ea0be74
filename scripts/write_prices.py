"""Print a part of conf/prices.yaml for one region, from AWS's price list.

    python scripts/write_prices.py index.json >> conf/prices.yaml
    python scripts/write_prices.py --region eu-west-1 >> conf/prices.yaml

The file is AWS's public one, which needs no account; it is some hundred megabytes and takes about
eight times as much memory:
https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/REGION/index.json
Without a file the Price List API is asked, with the credentials that boto3 finds. Of several parts
for a region the newest counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml

from benchorch.errors import PriceUnavailable
from benchorch.hardware.aws_prices import AwsPrices, prices_in
from benchorch.journal.chain import UNREADABLE

HARDWARE = Path(__file__).resolve().parents[1] / "conf" / "hardware"


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
    except (PriceUnavailable, OSError, *UNREADABLE) as error:
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
    offer = json.loads(path.read_text())
    regions = {one["attributes"].get("regionCode") for one in offer["products"].values()} - {None}
    if len(regions) != 1:
        raise ValueError(f"{path} has {len(regions)} regions; one region's file is expected")
    (region,) = regions
    source = f"AWS price list, {region}, version {offer['version']}"
    return part(region, offer["publicationDate"][:10], source, prices_in(offer, kinds()))


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
