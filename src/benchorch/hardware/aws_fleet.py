"""EC2 instances of a cluster, and cleaning of its bucket."""

import re
from collections.abc import Callable, Sequence
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


def empty_place(url: str, say: Callable[[str], None]) -> int:
    """Remove every version of what is below ``s3://bucket/prefix``; their number.

    A bucket that holds something cannot be removed. For what can be had again: artifacts, which are
    built, and results that have been fetched.
    """
    import boto3

    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    client, removed = boto3.client("s3"), 0
    listing = client.get_paginator("list_object_versions")
    pages = list(listing.paginate(Bucket=bucket, Prefix=f"{prefix}/"))
    for page in pages:  # of a thousand at most, which is what one call may remove
        marked = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        found = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in marked]
        if found:
            client.delete_objects(Bucket=bucket, Delete={"Objects": found, "Quiet": True})
        removed += len(found)
    if removed:
        say(f"removed {removed} object version(s) from {url}")
    return removed


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
