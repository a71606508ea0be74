"""EC2 instances of a cluster."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchorch.domain.price import Market
from benchorch.interfaces.stack import Refusal

CLUSTER_TAG, ROLE_TAG = "ray-cluster-name", "ray-node-type"
_MAY_PASS = re.compile(
    r"sufficient \S+ capacity|InsufficientInstanceCapacity|RequestLimitExceeded|"
    r"requested Availability Zone|[Ii]nstance [Pp]rofile"
)
"""Reasons after which a group tries another zone, or the same again a moment later."""

_ALIVE = ("pending", "running", "stopping", "stopped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Instance:
    """EC2 instance that may cost something.

    Attributes:
        instance_id: as EC2 calls it.
        kind: instance type.
        role: ``head`` or ``worker``.
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


def machines(cluster: str, region: str) -> Sequence[Ec2Instance]:
    """Every instance of a cluster in a region that is not gone, the oldest first."""
    filters = [
        {"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]},
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


def refused_launch(client: Any, group: str) -> Refusal | None:
    """The newest activity of an Auto Scaling group, if it launched nothing, by its client."""
    found = client.describe_scaling_activities(AutoScalingGroupName=group, MaxRecords=1)
    newest = next(iter(found["Activities"]), {"StatusCode": "none"})
    if newest["StatusCode"] not in ("Failed", "Cancelled"):
        return None
    reason = newest.get("StatusMessage") or newest.get("Description", "no reason")
    return Refusal(newest["ActivityId"], reason, _MAY_PASS.search(reason) is not None)


def _machine(instance: dict[str, Any]) -> Ec2Instance:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}
    spot = instance.get("InstanceLifecycle") == "spot"
    return Ec2Instance(
        instance_id=instance["InstanceId"],
        kind=instance["InstanceType"],
        role=tags.get(ROLE_TAG, "worker"),
        state=instance["State"]["Name"],
        market=Market.SPOT if spot else Market.ON_DEMAND,
        zone=instance["Placement"]["AvailabilityZone"],
        launched_at=instance["LaunchTime"].isoformat(),
    )


def _ec2(region: str) -> Any:
    import boto3

    return boto3.client("ec2", region_name=region)
