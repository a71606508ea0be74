"""The emulated AWS fails as AWS does, so that what the product does about it can be seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import boto3  # noqa: TID251 - calls what fails
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from support.aws_emulator import failures
from support.aws_emulator.server import Emulator
from support.aws_emulator.shim import IMAGE
from support.s3 import emulator

LAUNCH = {"ImageId": IMAGE, "InstanceType": "r6i.large", "MinCount": 1, "MaxCount": 1}
SPOT = {"InstanceMarketOptions": {"MarketType": "spot"}}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    running = emulator()
    for name, value in running.environment().items():
        monkeypatch.setenv(name, value)
    yield running
    running.traffic.faults.clear()
    running.ahead_s = running.seen_after_s = 0.0


@pytest.fixture
def ec2(aws: Emulator) -> Any:
    return boto3.client("ec2", config=Config(retries={"total_max_attempts": 1}))


def refused(call: Callable[[], object]) -> ClientError:
    with pytest.raises(ClientError) as caught:
        call()
    return caught.value


def code_of(error: ClientError) -> tuple[str, int]:
    return error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]


def ended(ec2: Any, *launched: Any) -> None:
    ids = [each["InstanceId"] for one in launched for each in one["Instances"]]
    ec2.terminate_instances(InstanceIds=ids)


@pytest.mark.parametrize(
    ("fault", "more", "code"),
    [
        (failures.no_capacity(zone="us-east-1a"), {"Placement": {"AvailabilityZone": "us-east-1a"}},
         "InsufficientInstanceCapacity"),
        (failures.over_quota(spot=False), {}, "VcpuLimitExceeded"),
        (failures.over_quota(spot=True), SPOT, "MaxSpotInstanceCountExceeded"),
        (failures.no_spot_role(), SPOT, "AuthFailure.ServiceLinkedRoleCreationNotPermitted"),
        (failures.unauthorized("ec2:RunInstances"), {}, "UnauthorizedOperation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_launch_is_refused_with_the_code_of_aws(aws, ec2, fault, more, code) -> None:
    aws.break_it(fault)
    assert code_of(refused(lambda: ec2.run_instances(**LAUNCH, **more)))[0] == code


def test_another_zone_and_another_market_are_not_concerned(aws, ec2) -> None:
    aws.break_it(failures.no_capacity(zone="us-east-1a"), failures.over_quota(spot=True))
    elsewhere = ec2.run_instances(**LAUNCH, Placement={"AvailabilityZone": "us-east-1b"})
    ended(ec2, elsewhere)


def test_a_throttled_call_has_the_status_that_clients_retry(aws, ec2) -> None:
    aws.break_it(failures.throttled("ec2:DescribeInstances", times=1))
    error = refused(ec2.describe_instances)
    assert code_of(error) == ("RequestLimitExceeded", 503)
    aws.break_it(failures.throttled("ec2:DescribeInstances", times=2))
    assert "Reservations" in boto3.client("ec2").describe_instances()  # as configured by default


def test_an_instance_is_invisible_at_first_and_its_id_not_found(aws, ec2) -> None:
    launched = ec2.run_instances(**LAUNCH)
    [name] = [one["InstanceId"] for one in launched["Instances"]]
    aws.seen_after_s = 3600.0
    told = ec2.describe_instances(Filters=[{"Name": "image-id", "Values": [IMAGE]}])
    assert name not in str(told["Reservations"])
    error = refused(lambda: ec2.describe_instances(InstanceIds=[name]))
    assert code_of(error)[0] == "InvalidInstanceID.NotFound"
    aws.seen_after_s = 0.001
    time.sleep(0.01)
    assert ec2.describe_instances(InstanceIds=[name])["Reservations"]
    ended(ec2, launched)


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_a_signature_of_another_time_is_refused(aws, ec2, ahead_s: float) -> None:
    aws.ahead_s = ahead_s
    assert code_of(refused(ec2.describe_instances))[0] == "SignatureDoesNotMatch"
    s3 = boto3.client("s3", config=Config(retries={"total_max_attempts": 1}))
    assert code_of(refused(s3.list_buckets)) == ("RequestTimeTooSkewed", 403)


def test_a_clock_that_is_off_by_minutes_is_accepted(aws, ec2) -> None:
    aws.ahead_s = 600.0
    assert "Reservations" in ec2.describe_instances()


def test_s3_asks_for_fewer_requests(aws) -> None:
    aws.break_it(failures.slow_down())
    s3 = boto3.client("s3", config=Config(retries={"total_max_attempts": 1}))
    assert code_of(refused(s3.list_buckets)) == ("SlowDown", 503)
