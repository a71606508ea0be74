"""Ends what a stack should not run any more; runs as a Lambda function, outside of its machines.

Every few minutes: machines older than their time, workers without a head, disks without a machine.
Once the budget is spent: every machine. Only what has both the stack's tag and its role is touched,
and the function's own rights end there, too.
"""

import os
from datetime import UTC, datetime, timedelta

import boto3

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
    ended = {name: why for name, why in reasons.items() if why}
    if spent or any(one["InstanceId"] in ended and _role(one) == "head" for one in machines):
        # First, lest the group makes another head.
        boto3.client("autoscaling").set_desired_capacity(
            AutoScalingGroupName=settings["HEAD_GROUP"], DesiredCapacity=0
        )
    if ended:
        ec2.terminate_instances(InstanceIds=list(ended))
    ended |= _disks(ec2, settings, now)
    if ended:
        _say(settings, ended)
    return ended


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
    """Remove disks that no machine holds; their ids and why."""
    filters = [
        {"Name": "tag:benchorch:stack", "Values": [settings["STACK"]]},
        {"Name": "status", "Values": ["available"]},
    ]
    pages = ec2.get_paginator("describe_volumes").paginate(Filters=filters)
    found = [one for page in pages for one in page["Volumes"]]
    old = [one["VolumeId"] for one in found if now - one["CreateTime"] > GRACE]
    for volume in old:
        ec2.delete_volume(VolumeId=volume)
    return dict.fromkeys(old, "no machine holds it")


def _say(settings, ended):
    lines = [f"{name}: {why}" for name, why in sorted(ended.items())]
    print("\n".join(lines))
    boto3.client("sns").publish(
        TopicArn=settings["TOPIC"],
        Subject=f"benchorch: {settings['STACK']}: {len(ended)} ended"[:100],
        Message="\n".join(lines),
    )
