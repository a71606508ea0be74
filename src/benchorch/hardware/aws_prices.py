"""AWS prices: the price list, and the history of spot prices."""

import json
import statistics
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, final

from benchorch.errors import PriceUnavailable
from benchorch.host.environment import is_installed
from benchorch.interfaces.price_source import PriceSource, SpotPrice

PRICE_LIST_REGION = "us-east-1"  # the price list of all regions is served from few places
PRODUCT = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}
"""Attributes of what is billed for a Linux machine on demand, among all products of its type."""

# Nobody waits for minutes to learn a price that a bundled list tells as well.
_QUICK = {"connect_timeout": 3, "read_timeout": 10, "retries": {"total_max_attempts": 2}}


@final
@dataclass(frozen=True, slots=True)
class AwsPrices(PriceSource):
    """Linux machines, shared tenancy, through boto3 and the credentials that it finds."""

    def on_demand(self, kinds: Collection[str], region: str) -> Mapping[str, float]:
        """Dollars an hour by kind; one request each."""
        client = _client("pricing", PRICE_LIST_REGION)
        found = {kind: cheapest(_answered(_products, client, kind, region)) for kind in kinds}
        return {kind: price for kind, price in found.items() if price is not None}

    def spot(self, kinds: Collection[str], region: str) -> Mapping[str, SpotPrice]:
        """The newest price of each zone, by kind."""
        newest: dict[tuple[str, str], tuple[datetime, float]] = {}
        for row in _answered(_spot_rows, _client("ec2", region), sorted(kinds)):
            place = (row["InstanceType"], row["AvailabilityZone"])
            offer = (row["Timestamp"], float(row["SpotPrice"]))
            newest[place] = max(newest.get(place, offer), offer)
        by_kind: dict[str, list[float]] = {}
        for (kind, _), (_, usd) in newest.items():
            by_kind.setdefault(kind, []).append(usd)
        return {kind: SpotPrice(statistics.median(usd), min(usd)) for kind, usd in by_kind.items()}


def cheapest(products: list[Mapping[str, Any]]) -> float | None:
    """Dollars an hour; what is priced at nothing is a reservation's, not a machine's."""
    terms = (term for entry in products for term in _values(entry, "terms", "OnDemand"))
    prices = (row["pricePerUnit"] for term in terms for row in _values(term, "priceDimensions"))
    usd = [float(price.get("USD", 0)) for price in prices]
    return min((price for price in usd if price > 0), default=None)


def has_credentials() -> bool:
    """Whether boto3 is installed and finds credentials, without network access."""
    if not is_installed("boto3"):
        return False
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        return boto3.Session().get_credentials() is not None
    except BotoCoreError:  # a profile that is not there, a file that makes no sense
        return False


def _client(service: str, region: str) -> Any:
    import boto3
    from botocore.config import Config

    try:
        return boto3.client(service, region_name=region, config=Config(**_QUICK))
    except _failures() as error:
        raise PriceUnavailable(f"AWS could not be asked for prices: {error}") from error


def _answered(ask: Any, *arguments: Any) -> list[Any]:
    try:
        return list(ask(*arguments))
    except _failures() as error:
        raise PriceUnavailable(f"AWS did not tell its prices: {error}") from error


def _failures() -> tuple[type[Exception], ...]:
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError


def _products(client: Any, kind: str, region: str) -> Iterator[Mapping[str, Any]]:
    """The price list's entries for one kind, each a JSON document."""
    fields = {"instanceType": kind, "regionCode": region, **PRODUCT}
    filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in fields.items()]
    answer = client.get_products(ServiceCode="AmazonEC2", Filters=filters)
    for text in answer.get("PriceList", []):
        yield json.loads(text)


def _values(node: Mapping[str, Any], *path: str) -> list[Any]:
    for key in path:
        node = node.get(key, {})
    return list(node.values())


def _spot_rows(client: Any, kinds: list[str]) -> Iterator[Mapping[str, Any]]:
    pages = client.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=kinds,
        ProductDescriptions=["Linux/UNIX"],
        StartTime=datetime.now(UTC),
    )
    for page in pages:
        yield from page["SpotPriceHistory"]
