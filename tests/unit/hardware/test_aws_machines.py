"""Machines that boot when a budget is reached are ended; those that have joined are Ray's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import boto3  # noqa: TID251 - launches as Ray's AWS provider does
import pytest

from benchorch.hardware.aws_machines import AwsMachines
from support.s3 import emulator

REGION = "us-east-1"
MINE = AwsMachines(cluster="mine", region=REGION)


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in emulator().environment().items():
        monkeypatch.setenv(name, value)
    client = boto3.client("ec2", region_name=REGION)
    yield client
    ids = list(alive(client))
    if ids:
        client.terminate_instances(InstanceIds=ids)


@cache
def image() -> str:
    """One of the emulator's; their list is long."""
    client = boto3.client("ec2", region_name=REGION)
    return str(client.describe_images()["Images"][0]["ImageId"])


def launch(ec2: Any, kind: str = "g5.xlarge", cluster: str = "mine", role: str = "worker") -> Any:
    tags = [
        {"Key": "ray-cluster-name", "Value": cluster},
        {"Key": "ray-node-type", "Value": role},
    ]
    found = ec2.run_instances(
        ImageId=image(),
        InstanceType=kind,
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    return found["Instances"][0]


def alive(ec2: Any) -> dict[str, str]:
    filters = [
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
        {"Name": "tag-key", "Values": ["ray-cluster-name"]},
    ]
    told = ec2.describe_instances(Filters=filters)["Reservations"]
    return {one["InstanceId"]: one["InstanceType"] for group in told for one in group["Instances"]}


def test_what_boots_is_ended_and_nothing_else(ec2: Any) -> None:
    boots, joined = launch(ec2), launch(ec2)
    others = [launch(ec2, cluster="other"), launch(ec2, role="head"), launch(ec2, kind="r6i.large")]
    assert MINE.end_booting({"g5.xlarge"}, {joined["PrivateIpAddress"]}) == 1
    left = alive(ec2)
    assert boots["InstanceId"] not in left
    assert {one["InstanceId"] for one in (joined, *others)} <= set(left)


def test_where_nothing_boots_nothing_is_ended(ec2: Any) -> None:
    assert MINE.end_booting({"p5.48xlarge"}, set()) == 0


def test_a_cloud_that_refuses_fails_no_sweep(
    ec2: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert MINE.end_booting({"g5.xlarge"}, set()) == 0
    assert "booting=not_ended" in caplog.text
