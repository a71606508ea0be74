"""Bake images: a machine of each kind installs its packages, tests itself, and its disk is kept.

A machine that is baked has the tag ``benchorch:bake``: its start script ends after the self-test.
It is stopped then instead of terminated, and its disk becomes an image with the stack's tag.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

BAKE_S, LOOK_S = 2400, 10
_TRY_ELSEWHERE = ("InsufficientInstanceCapacity", "Unsupported")
"""Codes of a zone that has no such machine, now or at all."""


def bake(
    stack: str,
    region: str,
    kinds: Mapping[str, list[Mapping[str, Any]]],
    say: Callable[[str], None],
) -> Iterator[tuple[str, str]]:
    """An image for each kind of node, as far as they succeed: kind and id, each once it is there.

    A kind that AWS refuses is reported, and the others are baked.

    Args:
        kinds: by kind, what a machine of it is launched from: ``type``, ``template``, ``subnets``.
    """
    import boto3

    ec2 = boto3.client("ec2", region_name=region)
    started: dict[str, str] = {}
    try:
        for kind, choices in kinds.items():
            with _reported(f"{kind}: no image was made", say):
                started[kind] = _launch(ec2, stack, choices[0])
                say(f"{kind}: {started[kind]} installs {choices[0]['packages']}")
        for kind, name in started.items():
            with _reported(f"{kind}: no image was made", say):
                problem = _wait_until_stopped(ec2, name) or _report(stack, region, name)
                if problem:
                    say(f"{kind}: no image was made: {problem}")
                else:
                    image = _keep(ec2, stack, kind, name)
                    say(f"{kind}: {image}")
                    yield kind, image
    finally:
        for name in started.values():
            with _reported(f"{name} was not ended; make status shows whether it is there", say):
                ec2.terminate_instances(InstanceIds=[name])


@contextmanager
def _reported(what: str, say: Callable[[str], None]) -> Iterator[None]:
    """Context in which an error of AWS's is said, and ends nothing else."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        say(f"{what}: {error}")


def _launch(ec2: Any, stack: str, choice: Mapping[str, Any]) -> str:
    """A machine in the first zone that has one; ClientError of the last zone where none has."""
    from botocore.exceptions import ClientError

    *others, last = choice["subnets"]
    for subnet in others:
        try:
            return _launch_in(ec2, stack, choice, subnet)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _TRY_ELSEWHERE:
                raise
    return _launch_in(ec2, stack, choice, last)


def _launch_in(ec2: Any, stack: str, choice: Mapping[str, Any], subnet: str) -> str:
    tags = [
        {"Key": "benchorch:stack", "Value": stack},
        {"Key": "benchorch:bake", "Value": "yes"},
        {"Key": "Name", "Value": f"{stack}-bake"},
    ]
    told = ec2.run_instances(
        LaunchTemplate={"LaunchTemplateId": choice["template"], "Version": "$Latest"},
        SubnetId=subnet,
        MinCount=1,
        MaxCount=1,
        InstanceInitiatedShutdownBehavior="stop",
        TagSpecifications=[
            {"ResourceType": kind, "Tags": tags}
            for kind in ("instance", "volume", "network-interface")
        ],
    )
    return str(told["Instances"][0]["InstanceId"])


def _wait_until_stopped(ec2: Any, name: str) -> str:
    """Empty once it is; otherwise what is wrong."""
    deadline_s = time.monotonic() + BAKE_S
    while time.monotonic() < deadline_s:
        state = _state(ec2, name)
        if state == "stopped":
            return ""
        if state in ("terminated", "shutting-down"):
            return f"{name} is {state}"
        time.sleep(LOOK_S)
    return f"{name} was not ready after {BAKE_S / 60:.0f} minutes"


def _state(ec2: Any, name: str) -> str:
    """A machine's; one that was launched a moment ago may not be listed yet."""
    from botocore.exceptions import ClientError

    try:
        told = ec2.describe_instances(InstanceIds=[name])
    except ClientError as error:
        if error.response["Error"]["Code"] != "InvalidInstanceID.NotFound":
            raise
        return "pending"
    return str(told["Reservations"][0]["Instances"][0]["State"]["Name"])


def _report(stack: str, region: str, name: str) -> str:
    """Empty if the machine's self-test passed; otherwise where its start failed."""
    import boto3

    account = boto3.client("sts", region_name=region).get_caller_identity()["Account"]
    kept = boto3.client("s3", region_name=region).get_object(
        Bucket=f"{stack}-{account}", Key=f"starts/{name}.json"
    )
    told = json.load(kept["Body"])
    if told["outcome"] == "baked":
        return ""
    return "\n  ".join((f"its start failed at {told['step']}", *told["log"][-5:]))


def _keep(ec2: Any, stack: str, kind: str, name: str) -> str:
    """The machine's disk as an image, once it is there."""
    tags = [
        {"Key": "benchorch:stack", "Value": stack},
        {"Key": "Name", "Value": f"{stack}-{kind}"},
    ]
    image = ec2.create_image(
        InstanceId=name,
        Name=f"{stack}-{kind}-{int(time.time())}",
        TagSpecifications=[
            {"ResourceType": "image", "Tags": tags},
            {"ResourceType": "snapshot", "Tags": tags},
        ],
    )["ImageId"]
    ec2.get_waiter("image_available").wait(
        ImageIds=[image], WaiterConfig={"Delay": LOOK_S, "MaxAttempts": BAKE_S // LOOK_S}
    )
    return str(image)
