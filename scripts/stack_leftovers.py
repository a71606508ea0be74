"""What of a stack costs money, found by its tag in every region of the account, and its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

TAG = "benchorch:stack"
ALIVE = ("pending", "running", "shutting-down", "stopping", "stopped")
HOME_REGION = "us-east-1"
ENDPOINT_S, LOOK_S = 600, 5
DENIED = ("UnauthorizedOperation", "AccessDenied")
_KINDS: Sequence[tuple[str, str, str, str, dict[str, Any]]] = (
    ("disk", "describe_volumes", "Volumes", "VolumeId", {}),
    ("interface", "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId", {}),
    ("image", "describe_images", "Images", "ImageId", {"Owners": ["self"]}),
    ("snapshot", "describe_snapshots", "Snapshots", "SnapshotId", {"OwnerIds": ["self"]}),
    ("network", "describe_vpcs", "Vpcs", "VpcId", {}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One thing that costs something or holds something that does.

    Attributes:
        kind: ``instance``, ``disk``, ``interface``, ``image``, ``snapshot``, ``group``,
            ``network``, ``address`` or ``gateway``.
    """

    region: str
    kind: str
    name: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.region}  {self.kind:9}  {self.name}  {self.note}".rstrip()


def regions(known: Collection[str] = ()) -> tuple[Sequence[str], Sequence[str]]:
    """Regions of the account to look in, and those in which a policy forbids it.

    An organisation may close regions that the account has enabled.

    Args:
        known: where the stack ever was. No policy leaves these out.
    """
    import boto3
    from botocore.exceptions import ClientError

    client = boto3.client("ec2", region_name=HOME_REGION)
    try:
        enabled = sorted(one["RegionName"] for one in client.describe_regions()["Regions"])
    except ClientError as error:
        if not known or error.response["Error"]["Code"] not in DENIED:
            raise
        return sorted(known), ()
    with ThreadPoolExecutor(8) as threads:
        is_open = list(threads.map(lambda region: region in known or _is_open(region), enabled))
    where = [region for region, yes in zip(enabled, is_open, strict=True) if yes]
    if not where:
        raise ValueError("these credentials may do ec2:DescribeInstances in no region")
    return where, [region for region in enabled if region not in where]


def _is_open(region: str) -> bool:
    import boto3
    from botocore.exceptions import ClientError

    try:
        boto3.client("ec2", region_name=region).describe_instances(MaxResults=5)
    except ClientError as error:
        if error.response["Error"]["Code"] in DENIED:
            return False
        raise
    return True


def find(stack: str, where: Iterable[str]) -> Sequence[Found]:
    """All of a stack in these regions, region by region."""
    with ThreadPoolExecutor(8) as threads:
        found = threads.map(lambda region: list(_in_region(stack, region)), where)
        return [one for each in found for one in each]


def end(stack: str, region: str, say: Callable[[str], None]) -> None:
    """Empty the head's group, terminate every machine and wait, remove disks and images.

    What GuardDuty has put into the stack's network goes, too.
    """
    import boto3

    found = list(_in_region(stack, region))
    ec2 = boto3.client("ec2", region_name=region)
    groups = boto3.client("autoscaling", region_name=region)
    for group in _names(found, "group"):  # first, lest another head is made
        groups.update_auto_scaling_group(
            AutoScalingGroupName=group, MinSize=0, MaxSize=0, DesiredCapacity=0
        )
    machines = _names(found, "instance")
    if machines:
        say(f"{region}: ending {', '.join(machines)}")
        ec2.terminate_instances(InstanceIds=machines)
        ec2.get_waiter("instance_terminated").wait(InstanceIds=machines)
    for image in _names(found, "image"):
        ec2.deregister_image(ImageId=image)
    for snapshot in _names(found, "snapshot"):
        ec2.delete_snapshot(SnapshotId=snapshot)
    for disk in _in_region(stack, region):
        if disk.kind == "disk" and disk.note == "available":
            ec2.delete_volume(VolumeId=disk.name)
    for network in _names(found, "network"):
        _end_guardduty(ec2, network, say)


def _end_guardduty(ec2: Any, network: str, say: Callable[[str], None]) -> None:
    """Remove GuardDuty's endpoint and security group, which keep Terraform from ending a network.

    Runtime Monitoring makes them in each network with machines, and never ends them.
    """
    here = {"Name": "vpc-id", "Values": [network]}
    its = {"Name": "tag:GuardDutyManaged", "Values": ["true"]}

    def endpoints() -> list[str]:
        listed = ec2.describe_vpc_endpoints(Filters=[here, its])["VpcEndpoints"]
        return [one["VpcEndpointId"] for one in listed if one["State"].lower() != "deleted"]

    names = endpoints()
    if names:
        say(f"{network}: ending GuardDuty's {', '.join(names)}")
        ec2.delete_vpc_endpoints(VpcEndpointIds=names)
    until_s = time.monotonic() + ENDPOINT_S
    while endpoints() and time.monotonic() < until_s:
        time.sleep(LOOK_S)
    own = {"Name": "group-name", "Values": [f"GuardDutyManagedSecurityGroup-{network}"]}
    for group in ec2.describe_security_groups(Filters=[here, own])["SecurityGroups"]:
        ec2.delete_security_group(GroupId=group["GroupId"])


def _names(found: Iterable[Found], kind: str) -> list[str]:
    return [one.name for one in found if one.kind == kind]


def _in_region(stack: str, region: str) -> Iterator[Found]:
    import boto3

    ec2 = boto3.client("ec2", region_name=region)
    mine = [{"Name": f"tag:{TAG}", "Values": [stack]}]

    def pages(what: str, key: str, *more: dict[str, Any], **words: Any) -> Iterator[dict[str, Any]]:
        for page in ec2.get_paginator(what).paginate(Filters=[*mine, *more], **words):
            yield from page[key]

    alive = {"Name": "instance-state-name", "Values": list(ALIVE)}
    for reservation in pages("describe_instances", "Reservations", alive):
        for one in reservation["Instances"]:
            note = f"{one['InstanceType']} {one['State']['Name']}"
            yield Found(region=region, kind="instance", name=one["InstanceId"], note=note)
    for kind, what, key, name, words in _KINDS:
        for one in pages(what, key, **words):
            note = one.get("State") or one.get("Status", "")
            yield Found(region=region, kind=kind, name=one[name], note=note)
    for one in ec2.describe_addresses(Filters=mine)["Addresses"]:
        yield Found(region=region, kind="address", name=one["AllocationId"])
    for one in pages("describe_nat_gateways", "NatGateways"):
        if one["State"] != "deleted":
            yield Found(region=region, kind="gateway", name=one["NatGatewayId"])
    groups = boto3.client("autoscaling", region_name=region)
    tags = [{"Name": "key", "Values": [TAG]}, {"Name": "value", "Values": [stack]}]
    for page in groups.get_paginator("describe_tags").paginate(Filters=tags):
        for one in page["Tags"]:
            yield Found(region=region, kind="group", name=one["ResourceId"])
