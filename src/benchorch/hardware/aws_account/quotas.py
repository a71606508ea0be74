"""Do the account's vCPU quotas allow the fleet?"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from benchorch.hardware.aws_account.account import Account, NotAnswered
from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import Finding, State
from benchorch.hardware.aws_account.machine_types import MachineType
from benchorch.hardware.aws_account.request import StackRequest

_ACCELERATED = {"inf": "inf", "trn": "trn", "g": "g", "vt": "g", "p": "p"}
_LETTERS = re.compile(r"[a-z]+")


def quota_group(kind: str, facts: Facts) -> str | None:
    """The group of families whose quota counts a type; None for one that the table lacks."""
    match = _LETTERS.match(kind)
    letters = match[0] if match else ""
    if letters in _ACCELERATED:
        return _ACCELERATED[letters]
    standard = {*facts["quota.families"].value, "im", "is"}  # Im4gn and Is4gen count as I
    return "standard" if letters in standard else None


def check_quotas(
    account: Account, request: StackRequest, types: Mapping[str, MachineType], facts: Facts
) -> Iterator[Finding]:
    """One finding for each quota that the fleet uses."""
    for market in request.markets:
        wanted: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for kind, most in _counted(request, market).items():
            group = quota_group(kind, facts)
            if group and kind in types:
                wanted[group].append((types[kind].vcpus, most))
        for group, machines in sorted(wanted.items()):
            yield _of_group(account, market, group, machines, facts)


def _counted(request: StackRequest, market: str) -> Mapping[str, int]:
    """The head, where there is one, is always on demand."""
    if market == "spot":
        return request.fleet
    fleet = dict(request.fleet)
    if not request.head_type:
        return fleet
    return {**fleet, request.head_type: fleet.get(request.head_type, 0) + 1}


def _of_group(
    account: Account, market: str, group: str, machines: Sequence[tuple[int, int]], facts: Facts
) -> Finding:
    code = facts[f"quota.{market}"].value[group]
    quota = _quota(account, code)
    all_of_them = sum(vcpus * most for vcpus, most in machines)
    largest = max(vcpus for vcpus, _ in machines)
    if quota >= all_of_them:
        state = State.OK
    else:
        state = State.WARNING if quota >= largest else State.FAILED
    return Finding(
        check="quotas",
        state=state,
        subject=f"{market} {group} ({code})",
        observed=f"{quota:.0f} vCPUs; the fleet takes up to {all_of_them}, its largest machine "
        f"{largest}",
        remedy=""
        if state is State.OK
        else "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code "
        f"{code} --desired-value {all_of_them} --region {account.region}",
    )


def _quota(account: Account, code: str) -> float:
    arguments = {"ServiceCode": "ec2", "QuotaCode": code}
    try:
        answer = account.call("service-quotas", "get_service_quota", **arguments)
    except NotAnswered as error:
        if error.code != "NoSuchResourceException":
            raise
        answer = account.call("service-quotas", "get_aws_default_service_quota", **arguments)
    return float(answer["Quota"]["Value"])
