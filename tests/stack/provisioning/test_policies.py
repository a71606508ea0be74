"""Who may do what in a stack: AWS's decision on calls of its machines and of its services."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from support.aws_emulator.images import facts
from support.aws_emulator.server import ACCOUNT, REGION, Emulator
from support.aws_emulator.traffic import Call
from support.policies import deployed
from support.policies.evaluator import Request, decide, faults, missing
from support.policies.provisioning import unexamined
from support.policies.requests import EC2, requests_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=f"SKIPPED: {missing()}"),
]
NAME = "benchorch"
OWN, OTHER = {"ray-cluster-name": NAME, "benchorch:stack": NAME}, {"ray-cluster-name": "another"}
MACHINE = f"{EC2}:instance/i-0123456789abcdef0"
PROFILE = f"arn:aws:iam::{ACCOUNT}:instance-profile/{NAME}"


@pytest.fixture(autouse=True)
def here(aws: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def bucket(stack) -> str:
    return str(stack.output("bucket"))


@pytest.fixture(scope="module")
def launch(stack) -> Mapping[str, str]:
    """The form of Ray's call for a spot machine, from the stack's own cluster file."""
    cluster = yaml.safe_load(str(stack.output("cluster_file")))
    node = cluster["available_node_types"]["g5.xlarge-spot"]["node_config"]
    tags = {**OWN, "ray-node-type": "worker"}
    marks = {
        f"TagSpecification.1.Tag.{number}.{part}": value
        for number, pair in enumerate(tags.items(), start=1)
        for part, value in zip(("Key", "Value"), pair, strict=True)
    }
    return {
        "InstanceType": "g5.xlarge",
        "InstanceMarketOptions.MarketType": "spot",
        "SubnetId": node["SubnetIds"][0],
        "ImageId": "ami-1",
        "MetadataOptions.HttpTokens": "required",
        "IamInstanceProfile.Arn": f"{PROFILE}-worker",
        **{f"TagSpecification.{number}.ResourceType": kind
           for number, kind in enumerate(("instance", "volume", "network-interface"), start=1)},
        **marks,
    }  # fmt: skip


def tagged(tags: Mapping[str, str], **more: str) -> dict[str, str]:
    return {**{f"aws:ResourceTag/{key}": value for key, value in tags.items()}, **more}


def may(
    role: str, action: str, resource: str, context: Mapping[str, str] | None = None, **more: Any
) -> str:
    """AWS's decision on one call of one of the stack's roles."""
    found = deployed.role(f"{NAME}-{role}")
    request = Request(
        principal=found.arn,
        action=action,
        resource=resource,
        identity=found.policies,
        context={"aws:SecureTransport": "true", **(context or {})},
        **more,
    )
    [decision] = decide([request])
    assert decision.decision != "Invalid", decision.why
    return decision.decision


def launched(fields: Mapping[str, str]) -> set[str]:
    """What AWS refuses of a launch by the head."""
    head = deployed.role(f"{NAME}-head")
    call = Call("ec2", "RunInstances", "/", fields)
    asked = list(requests_of(call, head.arn, head.policies))
    decisions = decide(asked)
    return {
        f"{request.action} {request.resource.rpartition(':')[2].partition('/')[0]}"
        for request, decision in zip(asked, decisions, strict=True)
        if decision.decision != "Allowed"
    }


def test_every_policy_of_the_stack_is_without_fault(stack, bucket):
    asked = [("resource", deployed.bucket_policy(bucket))]
    asked += [("resource", policy) for policy in deployed.topic_policies(NAME)]
    asked += [("endpoint", policy) for policy in deployed.endpoint_policies().values()]
    for role in deployed.roles(f"{NAME}-"):
        asked.append(("trust", role.trust))
        asked += [("identity", policy) for policy in role.policies.values()]
    assert len(asked) > 8
    found = {json.dumps(policy)[:300]: wrong
             for (_, policy), wrong in zip(asked, faults(asked), strict=True) if wrong}  # fmt: skip
    assert not found


def test_no_policy_of_the_stack_allows_every_action(stack):
    for role in deployed.roles(f"{NAME}-"):
        own = {name: doc for name, doc in role.policies.items() if not name.startswith("Amazon")}
        assert '"*:*"' not in json.dumps(own)
        assert '"Action": "*"' not in json.dumps(own)


def test_the_head_may_launch_a_spot_machine_of_the_fleet(launch):
    assert launched(launch) == set()


@pytest.mark.parametrize(
    ("changed", "refused"),
    [
        ({"InstanceType": "p5.48xlarge"}, "ec2:RunInstances instance"),
        ({"MetadataOptions.HttpTokens": "optional"}, "ec2:RunInstances instance"),
        ({"SubnetId": "subnet-of-others"}, "ec2:RunInstances subnet"),
        ({"TagSpecification.1.Tag.1.Value": "another"}, "ec2:RunInstances instance"),
        ({"IamInstanceProfile.Arn": f"{PROFILE}-head"}, "iam:PassRole role"),
        ({"IamInstanceProfile.Arn": "x/administrator"}, "iam:PassRole role"),
    ],
)
def test_the_head_may_launch_nothing_else(launch, changed, refused):
    assert launched({**launch, **changed}) == {refused}


def test_the_head_ends_machines_of_its_cluster_only():
    assert may("head", "ec2:TerminateInstances", MACHINE, tagged(OWN)) == "Allowed"
    assert may("head", "ec2:TerminateInstances", MACHINE, tagged(OTHER)) == "ImplicitlyDenied"
    assert may("head", "ec2:TerminateInstances", MACHINE) == "ImplicitlyDenied"


def test_tags_of_a_machine_that_runs_are_those_of_the_cluster_only():
    renew = {"aws:TagKeys": ["ray-node-status"]}
    assert may("head", "ec2:CreateTags", MACHINE, tagged(OWN) | renew) == "Allowed"
    assert may("head", "ec2:CreateTags", MACHINE, tagged(OTHER) | renew) == "ImplicitlyDenied"


def test_the_mark_by_which_machines_are_ended_and_billed_stays():
    keys = {"aws:TagKeys": ["ray-node-status", "benchorch:stack"]}
    create = ("head", "ec2:CreateTags", MACHINE)
    assert may(*create, tagged(OWN) | keys) == "ExplicitlyDenied"
    assert may(*create, {"ec2:CreateAction": "RunInstances"} | keys) == "Allowed"


@pytest.mark.parametrize(
    ("role", "action", "key", "decision"),
    [
        ("worker", "s3:GetObject", "store/a", "Allowed"),
        ("worker", "s3:PutObject", "store/a", "Allowed"),
        ("worker", "s3:PutObject", "results/run/x", "ImplicitlyDenied"),
        ("worker", "s3:GetObject", "results/run/x", "ImplicitlyDenied"),
        ("head", "s3:PutObject", "results/run/x", "Allowed"),
        ("head", "s3:GetObject", "results/run/attempts/t/0/x", "Allowed"),
        ("worker", "s3:DeleteObject", "store/leases/a", "Allowed"),
        ("worker", "s3:DeleteObject", "store/artifacts/k/manifest.json", "ImplicitlyDenied"),
        ("head", "s3:DeleteObject", "store/artifacts/k/manifest.json", "ImplicitlyDenied"),
        ("worker", "s3:PutObject", "store/artifacts/k/files/d", "Allowed"),
        ("worker", "s3:DeleteObject", "results/run/x", "ImplicitlyDenied"),
        ("head", "s3:DeleteObject", "results/run/x", "ImplicitlyDenied"),
        ("worker", "s3:PutObject", "packages/a.whl", "ImplicitlyDenied"),
        ("head", "s3:PutObject", "packages/a.whl", "Allowed"),
        ("worker", "s3:GetObject", "packages/a.whl", "Allowed"),
        ("worker", "s3:PutBucketPolicy", "", "ImplicitlyDenied"),
    ],
)
def test_objects_of_the_bucket(bucket, role, action, key, decision):
    place = f"arn:aws:s3:::{bucket}" + (f"/{key}" if key else "")
    assert may(role, action, place, resource_policy=deployed.bucket_policy(bucket)) == decision


@pytest.mark.parametrize("role", ["head", "worker"])
@pytest.mark.parametrize(
    "key", ["store/artifacts/k/manifest.json", "results/run/attempts/t/0/trace.json"]
)
def test_a_node_adds_artifacts_and_files_of_trials_and_replaces_none(bucket, role, key):
    put = (role, "s3:PutObject", f"arn:aws:s3:::{bucket}/{key}")
    assert may(*put, {"s3:if-none-match": "*"}) == "Allowed"
    assert may(*put) == "ExplicitlyDenied"


def test_plain_http_and_other_buckets_are_refused(bucket):
    policy = deployed.bucket_policy(bucket)
    place = f"arn:aws:s3:::{bucket}/store/a"
    plain = may("worker", "s3:GetObject", place, {"aws:SecureTransport": "false"},
                resource_policy=policy)  # fmt: skip
    assert plain == "ExplicitlyDenied"
    assert may("worker", "s3:GetObject", "arn:aws:s3:::another/store/a") == "ImplicitlyDenied"


@pytest.mark.parametrize(
    "action",
    ["ec2:RunInstances", "iam:PassRole", "iam:CreateUser", "iam:AttachRolePolicy"],
)
def test_a_worker_launches_nothing_and_makes_nobody(action):
    resource = f"arn:aws:iam::{ACCOUNT}:role/{NAME}-head" if "iam" in action else MACHINE
    resource = f"arn:aws:iam::{ACCOUNT}:user/x" if action == "iam:CreateUser" else resource
    assert may("worker", action, resource) == "ImplicitlyDenied"


@pytest.mark.parametrize("role", ["head", "worker"])
@pytest.mark.parametrize("action", ["ssm:GetParameter", "ssm:GetParameters"])
def test_a_machine_reads_no_parameter_of_the_account_but_the_stacks(stack, role, action):
    place = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter"
    assert may(role, action, f"{place}/production/database-password") == "ImplicitlyDenied"
    assert may(role, "ssm:GetParameter", f"{place}/{NAME}/ray-token") == "Allowed"
    assert may(role, "ssmmessages:OpenControlChannel", "*") == "Allowed"  # Session Manager's


# What AWS does for the stack


def test_the_reaper_ends_this_stacks_machines_and_nobody_elses():
    own = {"ec2:InstanceProfile": f"{PROFILE}-worker"}
    strange = {"ec2:InstanceProfile": f"arn:aws:iam::{ACCOUNT}:instance-profile/another"}
    end = ("reaper", "ec2:TerminateInstances", MACHINE)
    assert may(*end, tagged(OWN, **own)) == "Allowed"
    assert may(*end, tagged(OTHER, **own)) == "ImplicitlyDenied"
    assert may(*end, tagged(OWN, **strange)) == "ImplicitlyDenied"
    assert may(*end) == "ImplicitlyDenied"
    disk = ("reaper", "ec2:DeleteVolume", f"{EC2}:volume/vol-1")
    assert may(*disk, tagged(OWN)) == "Allowed"
    assert may(*disk, tagged(OTHER)) == "ImplicitlyDenied"


def test_the_reaper_empties_the_heads_group_only(stack):
    place = f"arn:aws:autoscaling:{REGION}:{ACCOUNT}:autoScalingGroup"
    import boto3  # noqa: TID251 - the group's own address

    [group] = boto3.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    act = ("reaper", "autoscaling:SetDesiredCapacity")
    assert may(*act, group["AutoScalingGroupARN"]) == "Allowed"
    assert may(*act, f"{place}:1:autoScalingGroupName/other") == "ImplicitlyDenied"


def test_the_schedule_starts_the_reaper_and_no_other_function():
    function = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function"
    act = ("reaper-schedule", "lambda:InvokeFunction")
    assert may(*act, f"{function}:{NAME}-reaper") == "Allowed"
    assert may(*act, f"{function}:other") == "ImplicitlyDenied"


def test_the_budget_takes_the_right_to_launch_from_the_head_and_nothing_from_others():
    policy = {"iam:PolicyARN": f"arn:aws:iam::{ACCOUNT}:policy/{NAME}-no-more"}
    another = {"iam:PolicyARN": "arn:aws:iam::aws:policy/AdministratorAccess"}
    roles = f"arn:aws:iam::{ACCOUNT}:role/"
    act = ("budgets", "iam:AttachRolePolicy")
    assert may(*act, f"{roles}{NAME}-head", policy) == "Allowed"
    assert may(*act, f"{roles}{NAME}-head", another) == "ImplicitlyDenied"
    assert may(*act, f"{roles}administrator", policy) == "ImplicitlyDenied"


def test_once_the_budget_has_acted_the_head_launches_nothing(launch):
    import boto3  # noqa: TID251 - does what the budget does

    iam = boto3.client("iam")
    arn = f"arn:aws:iam::{ACCOUNT}:policy/{NAME}-no-more"
    iam.attach_role_policy(RoleName=f"{NAME}-head", PolicyArn=arn)
    try:
        assert "ec2:RunInstances instance" in launched(launch)
        assert may("head", "ec2:TerminateInstances", MACHINE, tagged(OWN)) == "Allowed"
    finally:
        iam.detach_role_policy(RoleName=f"{NAME}-head", PolicyArn=arn)


@pytest.mark.parametrize(
    ("role", "service", "account", "decision"),
    [
        ("head", "ec2.amazonaws.com", ACCOUNT, "Allowed"),
        ("head", "lambda.amazonaws.com", ACCOUNT, "ImplicitlyDenied"),
        ("reaper", "lambda.amazonaws.com", ACCOUNT, "Allowed"),
        ("reaper-schedule", "scheduler.amazonaws.com", ACCOUNT, "Allowed"),
        ("reaper-schedule", "scheduler.amazonaws.com", "999999999999", "ImplicitlyDenied"),
        ("budgets", "budgets.amazonaws.com", ACCOUNT, "Allowed"),
        ("budgets", "budgets.amazonaws.com", "999999999999", "ImplicitlyDenied"),
    ],
)
def test_only_its_own_service_may_assume_a_role(role, service, account, decision):
    found = deployed.role(f"{NAME}-{role}")
    request = Request(
        principal=service,
        action="sts:AssumeRole",
        resource=found.arn,
        resource_policy=found.trust,
        context={"aws:SourceAccount": account},
    )
    [decided] = decide([request])
    assert decided.decision == decision, decided.why


def test_whoever_provisions_is_examined_for_every_call_that_provisioning_makes(stack):
    """`make provision-check` simulates these actions."""
    assert len(stack.called) > 80
    assert unexamined(stack.called) == []


def test_the_largest_fleet_leaves_the_heads_policies_as_short_as_iam_takes(stack):
    """Terraform takes a hundred types at most; the longest name of one has 18 letters."""
    own = stack.output("policies")
    head, node = (
        json.dumps(json.loads(own[role]), separators=(",", ":")) for role in ("head", "node")
    )
    most = 100 * len('"u7in-32tb.224xlarge",')
    assert len(head) + len(node) + most <= facts()["role.inline_policy_chars"].value
