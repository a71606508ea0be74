"""EC2 instances of a stack, as its status lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchorch.domain.price import Market
from benchorch.hardware.aws_fleet import ROLE_TAG
from stack_leftovers import TAG

_ALIVE = ("pending", "running", "stopping", "stopped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Instance:
    """EC2 instance that may cost something.

    Attributes:
        instance_id: as EC2 calls it.
        kind: instance type.
        role: ``head``, ``worker``, or ``image`` of one that is baked.
        state: ``pending``, ``running``, ``stopping`` or ``stopped``.
        launched_at: ISO 8601.
    """

    instance_id: str
    kind: str
    role: str
    state: str
    market: Market
    zone: str
    launched_at: str


def machines(stack: str, region: str) -> Sequence[Ec2Instance]:
    """Every instance of a stack in a region that is not gone, the oldest first."""
    filters = [
        {"Name": f"tag:{TAG}", "Values": [stack]},
        {"Name": "instance-state-name", "Values": list(_ALIVE)},
    ]
    pages = _ec2(region).get_paginator("describe_instances").paginate(Filters=filters)
    found = [
        _machine(instance)
        for page in pages
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
    ]
    return sorted(found, key=lambda machine: machine.launched_at)


def _machine(instance: dict[str, Any]) -> Ec2Instance:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}
    spot = instance.get("InstanceLifecycle") == "spot"
    return Ec2Instance(
        instance_id=instance["InstanceId"],
        kind=instance["InstanceType"],
        role="image" if tags.get("benchorch:bake") == "yes" else tags.get(ROLE_TAG, "worker"),
        state=instance["State"]["Name"],
        market=Market.SPOT if spot else Market.ON_DEMAND,
        zone=instance["Placement"]["AvailabilityZone"],
        launched_at=instance["LaunchTime"].isoformat(),
    )


def _ec2(region: str) -> Any:
    import boto3

    return boto3.client("ec2", region_name=region)
