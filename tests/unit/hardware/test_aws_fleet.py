"""A head's group has its refusals told."""

from __future__ import annotations

from datetime import UTC, datetime

import boto3  # noqa: TID251 - its own model checks the answers
import pytest
from botocore.stub import Stubber

from benchorch.hardware.aws_fleet import refused_launch

# As public repositories quote them from accounts.
FREE_PLAN = (
    "Could not launch On-Demand Instances. InvalidParameterCombination - The specified instance "
    "type is not eligible for Free Tier. Launching EC2 instance failed."
)
VCPU = (
    "Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more vCPU "
    "capacity than your current vCPU limit of 0 allows for the instance bucket that the specified "
    "instance type belongs to. Launching EC2 instance failed."
)
CAPACITY = (
    "We currently do not have sufficient m7i.large capacity in the Availability Zone you requested "
    "(us-east-1a). Launching EC2 instance failed."
)
ZONE = (
    "Your requested instance type (m7i.large) is not supported in your requested Availability Zone "
    "(us-east-1e). Launching EC2 instance failed."
)
NEW = (
    "Could not launch On-Demand Instances. PendingVerification - Your request for accessing "
    "resources in this region is being validated, and you will not be able to launch additional "
    "resources in this region until the validation is complete. Launching EC2 instance failed."
)
KEY = (
    "Instance became unhealthy while waiting for instance to be in InService state. Termination "
    "Reason: Client.InternalError: Client error on launch"
)


@pytest.mark.parametrize(
    ("status", "message", "may_pass"),
    [
        ("Successful", "", None),
        ("InProgress", "", None),
        ("Failed", FREE_PLAN, False),
        ("Failed", VCPU, False),
        ("Failed", CAPACITY, True),
        ("Failed", ZONE, True),
        ("Failed", NEW, True),
        ("Cancelled", KEY, False),
    ],
)
def test_a_launch_that_a_group_was_refused_is_told_with_whether_it_may_pass(
    status: str, message: str, may_pass: bool | None
) -> None:
    client = boto3.client("autoscaling", region_name="us-east-1")
    activity = {
        "ActivityId": "a-1",
        "AutoScalingGroupName": "benchorch-head",
        "Cause": "At 2026-11-25T16:00:00Z an instance was started",
        "StartTime": datetime(2026, 11, 25, 16, tzinfo=UTC),
        "StatusCode": status,
        **({"StatusMessage": message} if message else {}),
    }
    with Stubber(client) as answers:
        words = {"AutoScalingGroupName": "benchorch-head", "MaxRecords": 1}
        answers.add_response("describe_scaling_activities", {"Activities": [activity]}, words)
        found = refused_launch(client, "benchorch-head")
    assert (found and found.may_pass) == may_pass
    assert found is None or found.reason == message


def test_a_group_that_never_launched_was_refused_nothing() -> None:
    client = boto3.client("autoscaling", region_name="us-east-1")
    with Stubber(client) as answers:
        answers.add_response("describe_scaling_activities", {"Activities": []})
        assert refused_launch(client, "benchorch-head") is None
