"""Tags of a cluster's EC2 instances, and launches that AWS refused."""

import re
from typing import Any

from benchorch.interfaces.stack import Refusal

CLUSTER_TAG, ROLE_TAG = "ray-cluster-name", "ray-node-type"
_MAY_PASS = re.compile(
    r"sufficient \S+ capacity|InsufficientInstanceCapacity|RequestLimitExceeded|"
    r"requested Availability Zone|[Ii]nstance [Pp]rofile|is being validated"
)
"""Reasons after which a group tries another zone, or the same again a moment later."""


def refused_launch(client: Any, group: str) -> Refusal | None:
    """The newest activity of an Auto Scaling group, if it launched nothing, by its client."""
    found = client.describe_scaling_activities(AutoScalingGroupName=group, MaxRecords=1)
    newest = next(iter(found["Activities"]), {"StatusCode": "none"})
    if newest["StatusCode"] not in ("Failed", "Cancelled"):
        return None
    reason = newest.get("StatusMessage") or newest.get("Description", "no reason")
    return Refusal(newest["ActivityId"], reason, _MAY_PASS.search(reason) is not None)
