"""Whose credentials are they, and is the clock right?"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

from benchorch.hardware.aws_account.account import AwsAccount, NotAnswered
from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState

_SESSION = re.compile(
    r"arn:(?P<partition>[\w-]+):sts::(?P<account>\d+):assumed-role/(?P<role>[^/]+)/"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Attributes:
    arn: as STS reports it.
    server_time: of AWS; None where its answer has no date.
    """

    account: str
    arn: str
    server_time: datetime | None

    @property
    def partition(self) -> str:
        """``aws``, ``aws-cn`` or ``aws-us-gov``."""
        return self.arn.split(":")[1]


def identity_of(account: AwsAccount) -> Identity:
    """Identity to which the credentials belong."""
    answer = account.call("sts", "get_caller_identity")
    date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    return Identity(
        account=answer["Account"],
        arn=answer["Arn"],
        server_time=parsedate_to_datetime(date) if date else None,
    )


def simulated_arn(account: AwsAccount, identity: Identity) -> str | None:
    """The user or role whose policies the simulator takes; None for root and federated users.

    A session's address is not accepted, and its role may have a path that the address lacks.
    """
    session = _SESSION.match(identity.arn)
    if session is None:
        return identity.arn if ":user/" in identity.arn else None
    try:
        return str(account.call("iam", "get_role", RoleName=session["role"])["Role"]["Arn"])
    except NotAnswered:
        return f"arn:{session['partition']}:iam::{session['account']}:role/{session['role']}"


def check_identity(identity: Identity) -> Iterator[AccountFinding]:
    """Root has every right and cannot be limited."""
    root = identity.arn.endswith(":root")
    yield AccountFinding(
        "identity",
        FindingState.WARNING if root else FindingState.OK,
        identity.account,
        identity.arn,
        "Use a role or a user instead of the account's root." if root else "",
    )


def check_clock(identity: Identity, now: datetime, facts: Facts) -> Iterator[AccountFinding]:
    """AWS refuses signatures of another time."""
    if identity.server_time is None:
        return
    skew_s = abs((now - identity.server_time).total_seconds())
    limit_s = facts["error.skew_s"].value
    state = FindingState.FAILED if skew_s >= limit_s else FindingState.OK
    if state is FindingState.OK and skew_s >= limit_s / 3:
        state = FindingState.WARNING
    yield AccountFinding(
        "clock",
        state,
        "this machine",
        f"{skew_s:.0f} s from AWS's clock; AWS accepts less than {limit_s} s",
        "" if state is FindingState.OK else "Set the clock: timedatectl set-ntp true",
    )
