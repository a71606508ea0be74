"""A signature of another time is refused, as AWS refuses it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from support.aws_emulator.images import facts
from support.aws_emulator.traffic import Call, Fault

_LIMIT_S = facts()["error.skew_s"].value
_SKEWED_S3 = facts()["error.s3.skew"].value
_SKEWED = facts()["error.skew"].value


def refusal(call: Call, environ: Mapping[str, object], ahead_s: float) -> Fault | None:
    """The fault of a call whose signature is not of AWS's time, or None."""
    signed = str(environ.get("HTTP_X_AMZ_DATE", ""))
    if not signed:
        return None
    at = datetime.strptime(signed, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    now = datetime.now(UTC) + timedelta(seconds=ahead_s)
    if abs((now - at).total_seconds()) < _LIMIT_S:
        return None
    if call.service == "s3":
        told = "The difference between the request time and the current time is too large."
        return Fault(call.name, message=told, **_SKEWED_S3)
    ours = f"{now:%Y%m%dT%H%M%SZ}"
    told = f"Signature expired: {signed} is now earlier than {ours}"
    if at > now:
        told = f"Signature not yet current: {signed} is still later than {ours}"
    return Fault(call.name, code=_SKEWED, status=403, message=told)
