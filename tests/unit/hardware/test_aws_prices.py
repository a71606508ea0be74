"""What is made of AWS's answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import boto3  # noqa: TID251 - its answers are stubbed
import pytest
from botocore.stub import ANY, Stubber

from benchorch.errors import PriceUnavailable
from benchorch.hardware import aws_prices
from benchorch.hardware.aws_prices import AwsPrices
from benchorch.interfaces.price_source import SpotPrice


@pytest.fixture
def client(monkeypatch):
    """A client of boto3's whose answers a test gives."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")

    def make(service):
        made = boto3.client(service, region_name="us-east-1")
        stub = Stubber(made)
        monkeypatch.setattr(aws_prices, "_client", lambda *_: made)
        stub.activate()
        return stub

    return make


def product(*usd):
    dimensions = {str(i): {"pricePerUnit": {"USD": str(price)}} for i, price in enumerate(usd)}
    return json.dumps({"terms": {"OnDemand": {"one": {"priceDimensions": dimensions}}}})


def test_the_price_list_is_asked_for_linux_on_shared_machines(client):
    stub = client("pricing")
    wanted = {"ServiceCode": "AmazonEC2", "Filters": ANY}
    stub.add_response("get_products", {"PriceList": [product(0.0, 1.006)]}, wanted)
    assert AwsPrices().on_demand(["g5.xlarge"], "us-east-1") == {"g5.xlarge": 1.006}
    stub.assert_no_pending_responses()


def test_a_kind_that_is_not_sold_there_is_missing(client):
    client("pricing").add_response("get_products", {"PriceList": []})
    assert AwsPrices().on_demand(["g5.xlarge"], "mars-north-1") == {}


def test_of_each_zone_the_newest_spot_price_counts(client):
    def row(zone, hour, usd):
        return {
            "InstanceType": "g5.xlarge",
            "AvailabilityZone": zone,
            "Timestamp": datetime(2026, 11, 1, hour, tzinfo=UTC),
            "SpotPrice": str(usd),
        }

    rows = [row("a", 1, 0.9), row("a", 2, 0.4), row("b", 1, 0.3), row("c", 1, 0.6)]
    client("ec2").add_response("describe_spot_price_history", {"SpotPriceHistory": rows})
    assert AwsPrices().spot(["g5.xlarge"], "us-east-1") == {"g5.xlarge": SpotPrice(0.4, 0.3)}


def test_a_refusal_is_told_as_a_sentence(client):
    client("ec2").add_client_error("describe_spot_price_history", "UnauthorizedOperation")
    with pytest.raises(PriceUnavailable, match="UnauthorizedOperation"):
        AwsPrices().spot(["g5.xlarge"], "us-east-1")
