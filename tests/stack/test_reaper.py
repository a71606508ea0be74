"""What is ended from outside: what is too old or has no head; all once the budget is spent."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import boto3  # noqa: TID251 - makes and looks at machines
import pytest

from support.aws_emulator.server import ACCOUNT, Emulator

PROGRAM = Path(__file__).resolve().parents[2] / "infra" / "terraform" / "reaper" / "reaper.py"
PROFILES = [f"arn:aws:iam::{ACCOUNT}:instance-profile/reaped-{role}" for role in ("head", "worker")]
IMAGE = "ami-03cf127a"
NOW = timedelta()
LATER, MUCH_LATER = timedelta(minutes=20), timedelta(minutes=80)


@pytest.fixture(scope="module")
def aws() -> Iterator[Emulator]:
    pytest.importorskip("moto", reason="moto stands in for AWS")
    with Emulator({}).running() as emulator:
        yield emulator


@pytest.fixture
def settings(aws: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, str]]:
    """Of a stack named ``reaped`` whose machines live an hour, in an account with others."""
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    ec2, groups = boto3.client("ec2"), boto3.client("autoscaling")
    iam = boto3.client("iam")
    for profile in ("reaped-head", "reaped-worker", "other"):
        iam.create_instance_profile(InstanceProfileName=profile)
    ec2.create_launch_template(
        LaunchTemplateName="reaped",
        LaunchTemplateData={"ImageId": IMAGE, "InstanceType": "m7i.large"},
    )
    topic = boto3.client("sns").create_topic(Name="reaped")["TopicArn"]
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    groups.create_auto_scaling_group(
        AutoScalingGroupName="reaped-head",
        MinSize=0,
        MaxSize=1,
        DesiredCapacity=0,
        VPCZoneIdentifier=subnet,
        LaunchTemplate={"LaunchTemplateName": "reaped"},
    )
    yield {
        "STACK": "reaped",
        "TTL_MINUTES": "60",
        "HEAD_GROUP": "reaped-head",
        "PROFILES": ",".join(PROFILES),
        "TOPIC": topic,
    }
    groups.delete_auto_scaling_group(AutoScalingGroupName="reaped-head", ForceDelete=True)
    ec2.delete_launch_template(LaunchTemplateName="reaped")
    for profile in ("reaped-head", "reaped-worker", "other"):
        iam.delete_instance_profile(InstanceProfileName=profile)
    everything = [
        one["InstanceId"]
        for each in ec2.describe_instances()["Reservations"]
        for one in each["Instances"]
    ]
    if everything:
        ec2.terminate_instances(InstanceIds=everything)


@pytest.fixture
def reaper() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reaper", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


def launched(role: str, stack: str = "reaped", profile: str | None = PROFILES[1]) -> str:
    tags = {"benchorch:stack": stack, "ray-node-type": role}
    more = {"IamInstanceProfile": {"Arn": profile}} if profile else {}
    told = boto3.client("ec2").run_instances(
        ImageId=IMAGE,
        InstanceType="r6i.large",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
        ],
        **more,
    )
    return str(told["Instances"][0]["InstanceId"])


def state(name: str) -> str:
    told = boto3.client("ec2").describe_instances(InstanceIds=[name])
    return str(told["Reservations"][0]["Instances"][0]["State"]["Name"])


def reap(reaper: ModuleType, settings: Mapping[str, str], after: timedelta, **words: bool):
    return reaper.reap(settings, datetime.now(UTC) + after, **words)


def desired() -> int:
    told = boto3.client("autoscaling").describe_auto_scaling_groups(
        AutoScalingGroupNames=["reaped-head"]
    )
    return int(told["AutoScalingGroups"][0]["DesiredCapacity"])


def test_a_worker_with_a_head_works_on(reaper, settings):
    names = [launched("head", profile=PROFILES[0]), launched("worker")]
    assert reap(reaper, settings, LATER) == {}
    assert [state(name) for name in names] == ["running", "running"]


def test_a_worker_without_a_head_is_ended_once_a_head_would_have_been_replaced(reaper, settings):
    name = launched("worker")
    assert reap(reaper, settings, NOW) == {}
    assert reap(reaper, settings, LATER) == {name: "it has no head"}
    assert state(name) == "terminated"


def test_a_head_whose_time_is_up_is_ended_and_not_replaced(reaper, settings):
    boto3.client("autoscaling").set_desired_capacity(
        AutoScalingGroupName="reaped-head", DesiredCapacity=1
    )
    head, worker = launched("head", profile=PROFILES[0]), launched("worker")
    ended = reap(reaper, settings, MUCH_LATER)
    assert ended == dict.fromkeys((head, worker), "it is 1.3 hours old")
    assert {state(head), state(worker)} == {"terminated"}
    assert desired() == 0


def test_a_spent_budget_ends_everything_at_once(reaper, settings, monkeypatch):
    head, worker = launched("head", profile=PROFILES[0]), launched("worker")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    reaper.handler({"Records": [{"Sns": {"Message": "AWS Budgets: reaped-monthly"}}]}, None)
    assert {state(head), state(worker)} == {"terminated"}
    assert desired() == 0


def test_nothing_else_in_the_account_is_touched(reaper, settings):
    others = [
        launched("worker", stack="other"),
        launched("worker", profile=None),  # the tag alone anybody may have copied
        launched("worker", profile=f"arn:aws:iam::{ACCOUNT}:instance-profile/other"),
    ]
    ec2 = boto3.client("ec2")
    zone = ec2.describe_availability_zones()["AvailabilityZones"][0]["ZoneName"]
    disk = ec2.create_volume(AvailabilityZone=zone, Size=8)["VolumeId"]
    assert reap(reaper, settings, MUCH_LATER) == {}
    assert {state(name) for name in others} == {"running"}
    ec2.delete_volume(VolumeId=disk)


def test_a_disk_that_no_machine_holds_is_removed(reaper, settings):
    ec2 = boto3.client("ec2")
    zone = ec2.describe_availability_zones()["AvailabilityZones"][0]["ZoneName"]
    tags = [{"Key": "benchorch:stack", "Value": "reaped"}]
    disk = ec2.create_volume(
        AvailabilityZone=zone,
        Size=8,
        TagSpecifications=[{"ResourceType": "volume", "Tags": tags}],
    )["VolumeId"]
    assert reap(reaper, settings, NOW) == {}
    assert reap(reaper, settings, LATER) == {disk: "no machine holds it"}


def test_what_cannot_be_ended_keeps_nothing_else_from_its_end_and_fails_the_function(
    reaper, settings
):
    ec2 = boto3.client("ec2")
    names = [launched("worker") for _ in range(3)]
    protected = {"InstanceId": names[1], "DisableApiTermination": {"Value": True}}
    ec2.modify_instance_attribute(**protected)
    gone = {**settings, "HEAD_GROUP": "no-such-group"}
    with pytest.raises(RuntimeError) as failed:
        reap(reaper, gone, LATER, spent=True)
    assert [state(name) for name in names] == ["terminated", "running", "terminated"]
    assert "no-such-group: could not be ended" in str(failed.value)
    assert f"{names[1]}: could not be ended" in str(failed.value)
    assert names[0] not in str(failed.value)
    ec2.modify_instance_attribute(InstanceId=names[1], DisableApiTermination={"Value": False})
