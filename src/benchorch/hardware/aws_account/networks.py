"""Quota of networks in the stack's region."""

from __future__ import annotations

from collections.abc import Iterator

from benchorch.hardware.aws_account.account import Account
from benchorch.hardware.aws_account.buckets import STACK_TAG
from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import Finding, State


def check_networks(account: Account, stack: str, facts: Facts) -> Iterator[Finding]:
    """The region's networks (VPCs) against the account's quota; a stack has one."""
    code = str(facts["quota.vpcs"].value["code"])
    quota = account.quota("vpc", code)
    rows = account.pages("ec2", "describe_vpcs", "Vpcs")
    has_its_own = any({"Key": STACK_TAG, "Value": stack} in row.get("Tags", ()) for row in rows)
    fits = has_its_own or len(rows) < quota
    yield Finding(
        check="networks",
        state=State.OK if fits else State.FAILED,
        subject=f"VPCs ({code})",
        observed=f"{len(rows)} of {quota:.0f} exist; "
        + ("the stack's is one of them" if has_its_own else "the stack makes one"),
        remedy=""
        if fits
        else "Delete one that nothing uses, or aws service-quotas request-service-quota-increase "
        f"--service-code vpc --quota-code {code} --desired-value {len(rows) + 1} "
        f"--region {account.region}",
    )
