"""A launch that AWS refuses, through Ray's node provider, up to the sentence that people read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import boto3  # noqa: TID251 - makes the network, and counts what runs
import pytest

from benchorch.domain.price import Market
from benchorch.executors.scheduling.capacity import CapacityRules
from benchorch.executors.scheduling.cluster_file import NodeType, Placement
from benchorch.executors.scheduling.cluster_status import LaunchStatus, explain_no_capacity
from support.aws_emulator import failures
from support.aws_emulator.server import REGION, Emulator
from support.aws_emulator.shim import IMAGE
from support.s3 import emulator

KIND = "r6i.large"
RULES = CapacityRules(
    node_types=[
        NodeType(placement=Placement(kind=KIND, market=Market.SPOT), max_nodes=1, name="spot")
    ]
)
Launch = Callable[[], Sequence[str]]


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    running = emulator()
    for name, value in running.environment().items():
        monkeypatch.setenv(name, value)
    logging.getLogger("ray").setLevel(logging.ERROR)
    yield running
    running.traffic.faults.clear()
    running.seen_after_s = 0.0


@pytest.fixture
def subnets(aws: Emulator) -> Sequence[str]:
    """Two, in zones a and b."""
    ec2 = boto3.client("ec2")
    network = ec2.create_vpc(CidrBlock="10.61.0.0/16")["Vpc"]["VpcId"]
    return [
        ec2.create_subnet(
            VpcId=network, CidrBlock=f"10.61.{16 * number}.0/20", AvailabilityZone=f"{REGION}{zone}"
        )["Subnet"]["SubnetId"]
        for number, zone in enumerate("ab")
    ]


@pytest.fixture
def provider(aws: Emulator, request: pytest.FixtureRequest) -> Iterator[Any]:
    """What Ray's autoscaler launches nodes with; a cluster for each test."""
    node_provider = pytest.importorskip("ray.autoscaler._private.aws.node_provider")
    settings = {"type": "aws", "region": REGION, "cache_stopped_nodes": False}
    made = node_provider.AWSNodeProvider(settings, request.node.name[:60])
    yield made
    aws.traffic.faults.clear()
    aws.seen_after_s = 0.0
    nodes = made.non_terminated_nodes({})
    if nodes:
        made.terminate_nodes(nodes)


@pytest.fixture
def launch(provider: Any, subnets: Sequence[str]) -> Launch:
    """Ask for one spot machine; the ids of those that came."""
    ec2 = boto3.client("ec2")
    network = ec2.describe_subnets(SubnetIds=[subnets[0]])["Subnets"][0]["VpcId"]
    group = ec2.create_security_group(GroupName="lab", Description="lab", VpcId=network)["GroupId"]
    node = {
        "InstanceType": KIND,
        "ImageId": IMAGE,
        "SubnetIds": list(subnets),
        "SecurityGroupIds": [group],
        "InstanceMarketOptions": {"MarketType": "spot"},
    }
    return lambda: list(provider.create_node(dict(node), {"ray-node-type": "worker"}, 1))


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (failures.no_capacity(), "Ask for another size"),
        (failures.over_quota(spot=True), "make provision-check"),
        (failures.unauthorized("ec2:RunInstances"), "make provision"),
        (failures.no_spot_role(), "--aws-service-name spot.amazonaws.com"),
    ],
    ids=lambda value: getattr(value, "code", ""),
)
def test_a_refused_launch_is_reported_with_its_code_and_what_to_do(
    aws: Emulator, launch: Launch, fault: Any, advice: str
) -> None:
    aws.break_it(fault)
    with pytest.raises(Exception, match=fault.code) as caught:
        launch()
    why = explain_no_capacity(KIND, RULES, 0, LaunchStatus(last_error=str(caught.value)))
    assert fault.code in why.reason
    assert fault.message.rstrip(".") in why.reason
    assert advice in why.remedy


def test_a_zone_without_capacity_is_followed_by_the_next(
    aws: Emulator, launch: Launch, subnets: Sequence[str]
) -> None:
    aws.break_it(failures.no_capacity(subnet=subnets[0]), failures.no_capacity(subnet="none"))
    [name] = launch()
    told = boto3.client("ec2").describe_instances(InstanceIds=[name])
    assert told["Reservations"][0]["Instances"][0]["SubnetId"] == subnets[1]


def test_throttled_launches_are_repeated_and_one_machine_comes(
    aws: Emulator, launch: Launch, provider: Any
) -> None:
    aws.break_it(failures.throttled("ec2:RunInstances", times=3))
    assert len(launch()) == 1
    assert len(provider.non_terminated_nodes({})) == 1


def test_a_machine_that_is_invisible_at_first_is_found_later_and_can_be_ended(
    aws: Emulator, launch: Launch, provider: Any
) -> None:
    [name] = launch()
    aws.seen_after_s = 3600.0
    assert provider.non_terminated_nodes({}) == []
    aws.seen_after_s = 0.0
    assert provider.non_terminated_nodes({}) == [name]
    provider.terminate_node(name)
    assert provider.non_terminated_nodes({}) == []
