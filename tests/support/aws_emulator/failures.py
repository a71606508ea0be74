"""AWS fails as the table of facts has it: codes and statuses come from there, once.

The messages are AWS's, as people meet them in its error reports.
"""

from __future__ import annotations

from typing import Any

from support.aws_emulator.images import facts
from support.aws_emulator.traffic import Fault

_FACTS = facts()


def no_capacity(*, zone: str = "", subnet: str = "", **fields: str) -> Fault:
    """A zone has no such machine now; with neither zone nor subnet none has."""
    if subnet:
        fields["SubnetId"] = subnet
    if zone:
        fields["Placement.AvailabilityZone"] = zone
    return _launch("error.capacity", 500, "We currently do not have sufficient capacity", fields)


def over_quota(*, spot: bool, **fields: str) -> Fault:
    """The account may run no more of these."""
    if spot:
        fields["InstanceMarketOptions.MarketType"] = "spot"
        return _launch("error.quota.spot", 400, "Max spot instance count exceeded", fields)
    told = "You have requested more vCPU capacity than your current vCPU limit of 0 allows"
    return _launch("error.quota.on_demand", 400, told, fields)


def no_spot_role() -> Fault:
    """A fresh account, and a caller who may not make the role."""
    told = (
        "The provided credentials do not have permission to create the service-linked role for "
        "EC2 Spot Instances."
    )
    spot = {"InstanceMarketOptions.MarketType": "spot"}
    return _launch("error.spot_role", 403, told, spot)


def unauthorized(call: str, key: str = "") -> Fault:
    """No policy allows the call to whoever has this access key, or to anybody."""
    code = _FACTS["error.unauthorized"].value
    told = (
        "You are not authorized to perform this operation. User: "
        f"arn:aws:iam::123456789012:user/ada is not authorized to perform: {call} "
        f"because no identity-based policy allows the {call} action"
    )
    return Fault(call, code=code, status=403, message=told, key=key)


def skewed(key: str, times: int) -> Fault:
    """S3 refuses whoever has this access key, as his clock is wrong."""
    told = "The difference between the request time and the current time is too large."
    return Fault("s3:.*", times=times, key=key, message=told, **_FACTS["error.s3.skew"].value)


def throttled(call: str, times: int) -> Fault:
    """More calls than the account's rate."""
    told = _FACTS["error.throttled"].value
    return Fault(call, times=times, message="Request limit exceeded.", **told)


def slow_down(call: str = "s3:.*", times: int = 10**9, path: str = "") -> Fault:
    """S3 wants fewer requests."""
    told = _FACTS["error.s3.slow"].value
    return Fault(call, times=times, path=path, message="Please reduce your request rate.", **told)


def _launch(identifier: str, status: int, message: str, fields: dict[str, Any]) -> Fault:
    code = _FACTS[identifier].value
    return Fault("ec2:RunInstances", code=code, status=status, message=message, fields=fields)
