"""Where what is left of a stack is looked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3  # noqa: TID251 - stands in for it
import pytest
from botocore.exceptions import ClientError

import stack_leftovers
from support.aws_emulator.server import REGION, Emulator

ENABLED = ("us-west-2", "eu-west-1", "us-east-1")


def denied(call: str, code: str = "UnauthorizedOperation") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "a service control policy"}}, call)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """An account whose organisation closes regions, or the list of them."""

    def with_policies(
        *closed: str, lists: bool = True, code: str = "UnauthorizedOperation"
    ) -> None:
        class Ec2:
            def __init__(self, region: str) -> None:
                self.region = region

            def describe_regions(self) -> Any:
                if not lists:
                    raise denied("DescribeRegions")
                return {"Regions": [{"RegionName": region} for region in ENABLED]}

            def describe_instances(self, **_: object) -> Any:
                if self.region in closed:
                    raise denied("DescribeInstances", code)
                return {"Reservations": []}

        monkeypatch.setattr(boto3, "client", lambda _, region_name: Ec2(region_name))

    return with_policies


def test_regions_that_a_policy_closes_are_left_out_and_named(account: Callable[..., None]) -> None:
    account("us-west-2")
    assert stack_leftovers.regions() == (["eu-west-1", "us-east-1"], ["us-west-2"])


def test_a_region_where_the_stack_was_is_never_left_out(account: Callable[..., None]) -> None:
    account("us-west-2")
    assert stack_leftovers.regions(["us-west-2"]) == (sorted(ENABLED), [])


def test_where_regions_cannot_be_listed_the_stacks_own_are_looked_in(
    account: Callable[..., None],
) -> None:
    account(lists=False)
    assert stack_leftovers.regions(["eu-west-1"]) == (["eu-west-1"], ())
    with pytest.raises(ClientError, match="DescribeRegions"):
        stack_leftovers.regions()


def test_credentials_that_may_look_nowhere_find_out(account: Callable[..., None]) -> None:
    account(*ENABLED)
    with pytest.raises(ValueError, match="DescribeInstances in no region"):
        stack_leftovers.regions()


def test_an_error_that_is_no_refusal_closes_no_region(account: Callable[..., None]) -> None:
    account("us-west-2", code="RequestLimitExceeded")
    with pytest.raises(ClientError, match="RequestLimitExceeded"):
        stack_leftovers.regions()


def test_what_guardduty_has_put_into_a_stacks_network_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Terraform could remove neither subnets nor network; another network's parts stay."""
    pytest.importorskip("moto", reason="moto stands in for AWS")
    with Emulator({}).running() as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        ec2 = boto3.client("ec2")
        managed = [{"Key": "GuardDutyManaged", "Value": "true"}]
        tag = [{"Key": "benchorch:stack", "Value": "lab"}]
        groups = {}
        for tags in (tag, []):
            network = ec2.create_vpc(CidrBlock="10.70.0.0/16")["Vpc"]["VpcId"]
            if tags:
                ec2.create_tags(Resources=[network], Tags=tags)
            subnet = ec2.create_subnet(VpcId=network, CidrBlock="10.70.0.0/20")["Subnet"]
            name = f"GuardDutyManagedSecurityGroup-{network}"
            groups[network] = ec2.create_security_group(
                GroupName=name, Description=name, VpcId=network
            )["GroupId"]
            ec2.create_vpc_endpoint(
                VpcEndpointType="Interface",
                VpcId=network,
                ServiceName=f"com.amazonaws.{REGION}.guardduty-data",
                SubnetIds=[subnet["SubnetId"]],
                SecurityGroupIds=[groups[network]],
                TagSpecifications=[{"ResourceType": "vpc-endpoint", "Tags": managed}],
            )
        said: list[str] = []
        stack_leftovers.end("lab", REGION, said.append)
        left = [
            one["VpcId"]
            for one in ec2.describe_vpc_endpoints()["VpcEndpoints"]
            if one["VpcId"] in groups and one["State"] != "deleted"
        ]
        mine, other = groups
        assert left == [other]
        kept = {one["GroupId"] for one in ec2.describe_security_groups()["SecurityGroups"]}
        assert kept & {*groups.values()} == {groups[other]}
        [line] = said
        assert line.startswith(f"{mine}: ending GuardDuty's vpce-")
