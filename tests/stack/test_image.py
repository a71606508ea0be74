"""Baking: a machine that tested itself becomes an image with the stack's tag, another does not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3  # noqa: TID251 - makes and looks at machines
import pytest
from botocore.exceptions import ClientError

from support.aws_emulator.failures import no_capacity
from support.aws_emulator.server import ACCOUNT, REGION, Emulator

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import stack_image
from stack_machines import machines

BUCKET = f"baker-{ACCOUNT}"


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[dict[str, object]]]]:
    """What a machine is baked from, in an emulated account."""
    pytest.importorskip("moto", reason="moto stands in for AWS")
    with Emulator({}).running() as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        ec2 = boto3.client("ec2")
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        template = ec2.create_launch_template(
            LaunchTemplateName="baker",
            LaunchTemplateData={"ImageId": "ami-03cf127a", "InstanceType": "r6i.large"},
        )["LaunchTemplate"]["LaunchTemplateId"]
        subnets = [one["SubnetId"] for one in ec2.describe_subnets()["Subnets"][:2]]
        choice = {"type": "r6i.large", "template": template, "subnets": subnets}
        aws.break_it(no_capacity(subnet=subnets[0]))
        yield {"cpu-x86_64": [{**choice, "packages": "cpu-x86_64-0"}]}
        ec2.delete_launch_template(LaunchTemplateId=template)
        boto3.resource("s3").Bucket(BUCKET).objects.delete()
        boto3.client("s3").delete_bucket(Bucket=BUCKET)


def ends_with(outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines write this outcome and stop, as their start script does."""
    launch = stack_image._launch

    def launched(*words: object) -> str:
        name = launch(*words)  # type: ignore[arg-type]
        told = {"outcome": outcome, "step": "self-test", "log": ["ImportError: no torch"]}
        body = json.dumps(told).encode()
        boto3.client("s3").put_object(Bucket=BUCKET, Key=f"starts/{name}.json", Body=body)
        boto3.client("ec2").stop_instances(InstanceIds=[name])
        return name

    monkeypatch.setattr(stack_image, "_launch", launched)


def bake(kinds: dict[str, list[dict[str, object]]], say: Callable[[str], None]) -> dict[str, str]:
    return dict(stack_image.bake("baker", REGION, kinds, say))


def own_images() -> list[dict[str, object]]:
    return list(boto3.client("ec2").describe_images(Owners=["self"])["Images"])


def test_a_machine_that_passed_its_self_test_becomes_an_image_and_ends(kinds, monkeypatch):
    ends_with("baked", monkeypatch)
    images = bake(kinds, lambda _: None)
    [image] = [one for one in own_images() if one["ImageId"] == images["cpu-x86_64"]]
    mine = {"Key": "benchorch:stack", "Value": "baker"}
    assert mine in image["Tags"]
    [snapshot] = boto3.client("ec2").describe_snapshots(
        Filters=[{"Name": "tag:benchorch:stack", "Values": ["baker"]}]
    )["Snapshots"]
    assert mine in snapshot["Tags"]
    told = boto3.client("ec2").describe_instances(
        Filters=[{"Name": "tag:benchorch:bake", "Values": ["yes"]}]
    )
    [machine] = told["Reservations"][-1]["Instances"]
    assert machine["State"]["Name"] == "terminated"


def test_no_machine_is_left_where_an_image_cannot_be_kept(kinds, monkeypatch):
    ends_with("baked", monkeypatch)
    ec2 = boto3.client("ec2")
    filters = [{"Name": "tag:benchorch:bake", "Values": ["yes"]}]

    def refused(*_: object) -> str:
        raise OSError("the line is dead")

    monkeypatch.setattr(stack_image, "_keep", refused)
    with pytest.raises(OSError, match="the line is dead"):
        bake(kinds, lambda _: None)
    told = ec2.describe_instances(Filters=filters)["Reservations"]
    states = {one["State"]["Name"] for each in told for one in each["Instances"]}
    assert states == {"terminated"}


def test_a_zone_without_capacity_is_no_end_where_another_has_a_machine(kinds):
    [[choice]] = kinds.values()
    ec2 = boto3.client("ec2")
    name = stack_image._launch(ec2, "baker", choice)
    [found] = ec2.describe_instances(InstanceIds=[name])["Reservations"]
    assert found["Instances"][0]["SubnetId"] == choice["subnets"][1]
    [listed] = machines("baker", REGION)  # as make status does
    assert (listed.instance_id, listed.role) == (name, "image")
    with pytest.raises(ClientError, match="InsufficientInstanceCapacity"):
        stack_image._launch(ec2, "baker", {**choice, "subnets": choice["subnets"][:1]})
    ec2.terminate_instances(InstanceIds=[name])


def test_a_kind_that_aws_refuses_costs_no_other_its_image(kinds, monkeypatch):
    """Such as a GPU's, in an account without a quota for them."""
    ends_with("baked", monkeypatch)
    launch = stack_image._launch
    [[choice]] = kinds.values()

    def launched(ec2: object, stack: str, one: dict[str, object]) -> str:
        if one["type"] == "g5.xlarge":
            raise ClientError({"Error": {"Code": "VcpuLimitExceeded"}}, "RunInstances")
        return launch(ec2, stack, one)

    monkeypatch.setattr(stack_image, "_launch", launched)
    said: list[str] = []
    every = {"cuda-x86_64": [{**choice, "type": "g5.xlarge"}], **kinds}
    assert list(bake(every, said.append)) == ["cpu-x86_64"]
    assert "cuda-x86_64: no image was made" in said[0]
    assert "VcpuLimitExceeded" in said[0]


def test_an_image_that_is_made_is_told_before_the_next_is_waited_for(kinds, monkeypatch):
    """Whoever interrupts the wait keeps it."""
    ends_with("baked", monkeypatch)
    wait, waited = stack_image._wait_until_stopped, []

    def interrupted(ec2: object, name: str) -> str:
        waited.append(name)
        if len(waited) == 2:
            raise KeyboardInterrupt
        return wait(ec2, name)

    monkeypatch.setattr(stack_image, "_wait_until_stopped", interrupted)
    [choices] = kinds.values()
    baked = stack_image.bake("baker", REGION, {**kinds, "second": choices}, lambda _: None)
    kind, image = next(baked)
    assert (kind, image) == ("cpu-x86_64", own_images()[-1]["ImageId"])
    with pytest.raises(KeyboardInterrupt):
        next(baked)
    assert [stack_image._state(boto3.client("ec2"), name) for name in waited] == ["terminated"] * 2


def test_a_machine_without_a_report_costs_no_other_its_image(kinds, monkeypatch):
    ends_with("baked", monkeypatch)
    report = stack_image._report
    names: list[str] = []

    def reported(stack: str, region: str, name: str) -> str:
        names.append(name)
        return report(stack, region, "i-nobody" if len(names) == 1 else name)

    monkeypatch.setattr(stack_image, "_report", reported)
    said: list[str] = []
    [choices] = kinds.values()
    images = bake({"silent": choices, **kinds}, said.append)
    assert list(images) == ["cpu-x86_64"]
    assert any("silent: no image was made" in line and "NoSuchKey" in line for line in said)
    states = [stack_image._state(boto3.client("ec2"), name) for name in names]
    assert states == ["terminated"] * 2


def test_a_machine_that_is_listed_late_is_waited_for(monkeypatch):
    monkeypatch.setattr(stack_image, "LOOK_S", 0)
    late = ClientError({"Error": {"Code": "InvalidInstanceID.NotFound"}}, "DescribeInstances")
    stopped = {"Reservations": [{"Instances": [{"State": {"Name": "stopped"}}]}]}
    answers: list[object] = [late, stopped]

    class Ec2:
        def describe_instances(self, **_: object) -> object:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    assert stack_image._wait_until_stopped(Ec2(), "i-1") == ""
    assert not answers


def test_a_machine_whose_self_test_failed_becomes_none(kinds, monkeypatch):
    ends_with("failed", monkeypatch)
    said: list[str] = []
    before = len(own_images())
    assert bake(kinds, said.append) == {}
    assert "its start failed at self-test" in said[-1]
    assert "ImportError: no torch" in said[-1]
    assert len(own_images()) == before
