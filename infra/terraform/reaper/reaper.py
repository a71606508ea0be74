"""Ends what a stack should not run any more; runs as a Lambda function, outside of its machines.

Every few minutes: machines older than their time, workers without a head, disks without a machine.
Once the budget is spent: every machine. Only what has both the stack's tag and its role is touched,
and the function's own rights end there, too.
"""

import contextlib
import os
from datetime import UTC, datetime, timedelta

import boto3
from botocore.exceptions import ClientError

ALIVE = ["pending", "running", "stopping", "stopped"]
GRACE = timedelta(minutes=15)
"""Longer than it takes to replace a head, and more than the ten minutes from look to look."""


def handler(event, context):
    """What was ended, by id and reason."""
    spent = any("Sns" in record for record in event.get("Records", ()))
    return reap(os.environ, datetime.now(UTC), spent=spent)


def reap(settings, now, *, spent=False):
    """End what `settings` call the stack's and its time is up; ids with their reasons."""
    ec2 = boto3.client("ec2")
    machines = _machines(ec2, settings)
    ttl = timedelta(minutes=float(settings["TTL_MINUTES"]))
    reasons = {one["InstanceId"]: _reason(one, machines, now, ttl, spent) for one in machines}
    due = {name: why for name, why in reasons.items() if why}
    failed = {}
    if spent or any(one["InstanceId"] in due and _role(one) == "head" for one in machines):
        # First, lest the group makes another head.
        empty = boto3.client("autoscaling").set_desired_capacity
        with _noted(failed, settings["HEAD_GROUP"]):
            empty(AutoScalingGroupName=settings["HEAD_GROUP"], DesiredCapacity=0)
    for name in due:  # one by one: of a list with one wrong name EC2 ends none
        with _noted(failed, name):
            ec2.terminate_instances(InstanceIds=[name])
    disks = _disks(ec2, settings, now)
    for name in disks:
        with _noted(failed, name):
            ec2.delete_volume(VolumeId=name)
    told = {**due, **disks, **failed}
    if told:
        _say(settings, told, len(told) - len(failed))
    if failed:  # which an alarm reports
        raise RuntimeError("; ".join(f"{name}: {why}" for name, why in failed.items()))
    return told


@contextlib.contextmanager
def _noted(failed, name):
    """Go on where AWS refuses one thing, so that it keeps no other from its end."""
    try:
        yield
    except ClientError as error:
        failed[name] = f"could not be ended: {error}"


def _machines(ec2, settings):
    filters = [
        {"Name": "tag:benchorch:stack", "Values": [settings["STACK"]]},
        {"Name": "instance-state-name", "Values": ALIVE},
    ]
    profiles = settings["PROFILES"].split(",")
    return [
        one
        for page in ec2.get_paginator("describe_instances").paginate(Filters=filters)
        for reservation in page["Reservations"]
        for one in reservation["Instances"]
        if one.get("IamInstanceProfile", {}).get("Arn") in profiles
    ]


def _reason(one, machines, now, ttl, spent):
    """Why a machine is to be ended, or None."""
    age = now - one["LaunchTime"]
    if spent:
        return "the budget is spent"
    if age > ttl + GRACE:
        return f"it is {age.total_seconds() / 3600:.1f} hours old"
    if _role(one) != "worker" or age < GRACE:
        return None
    ages = [now - each["LaunchTime"] for each in machines if _role(each) == "head"]
    return None if any(each <= ttl + GRACE for each in ages) else "it has no head"


def _role(one):
    tags = {tag["Key"]: tag["Value"] for tag in one.get("Tags", ())}
    return "image" if tags.get("benchorch:bake") == "yes" else tags.get("ray-node-type", "worker")


def _disks(ec2, settings, now):
    """Disks that no machine holds, and why they are to be removed."""
    filters = [
        {"Name": "tag:benchorch:stack", "Values": [settings["STACK"]]},
        {"Name": "status", "Values": ["available"]},
    ]
    pages = ec2.get_paginator("describe_volumes").paginate(Filters=filters)
    found = [one for page in pages for one in page["Volumes"]]
    old = [one["VolumeId"] for one in found if now - one["CreateTime"] > GRACE]
    return dict.fromkeys(old, "no machine holds it")


def _say(settings, told, count):
    lines = [f"{name}: {why}" for name, why in sorted(told.items())]
    print("\n".join(lines))
    boto3.client("sns").publish(
        TopicArn=settings["TOPIC"],
        Subject=f"benchorch: {settings['STACK']}: {count} ended"[:100],
        Message="\n".join(lines),
    )
