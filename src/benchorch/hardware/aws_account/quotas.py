"""Do the account's vCPU quotas allow the fleet?"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchorch.hardware.aws_account.account import AwsAccount
from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState
from benchorch.hardware.aws_account.machine_types import MachineType
from benchorch.hardware.aws_account.request import StackRequest

_ACCELERATED = {"inf": "inf", "trn": "trn", "g": "g", "gr": "g", "vt": "g", "p": "p"}
_LETTERS = re.compile(r"[a-z]+")
_P5 = re.compile(r"p5[a-z]*\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """One quota, and the machines of the fleet that it counts.

    Attributes:
        most: how many of each type.
        vcpus: how many one of them has.
    """

    market: str
    group: str
    code: str
    quota: float
    most: Mapping[str, int]
    vcpus: Mapping[str, int]

    @property
    def largest(self) -> int:
        return max(self.vcpus[kind] for kind in self.most)

    @property
    def all_of_them(self) -> int:
        return sum(self.vcpus[kind] * most for kind, most in self.most.items())

    def allows(self, kind: str) -> bool:
        return kind in self.most and self.quota >= self.vcpus[kind]


def quota_group(kind: str, facts: Facts) -> str | None:
    """The group of families whose quota counts a type; None for one that the table lacks."""
    match = _LETTERS.match(kind)
    letters = match[0] if match else ""
    if letters in _ACCELERATED:
        return _ACCELERATED[letters]
    standard = {*facts["quota.families"].value, "im", "is"}  # Im4gn and Is4gen count as I
    return "standard" if letters in standard else None


def check_quotas(
    account: AwsAccount, request: StackRequest, types: Mapping[str, MachineType], facts: Facts
) -> Iterator[AccountFinding]:
    """One finding for each quota that the fleet uses; failed where some machine cannot come."""
    uses: list[_Use] = []
    for market in request.markets:
        uses += _uses(account, request, market, types, facts)
    for use in uses:
        yield _finding(use, _state(use, uses, request.head_type), account.region)


def _uses(
    account: AwsAccount,
    request: StackRequest,
    market: str,
    types: Mapping[str, MachineType],
    facts: Facts,
) -> Iterator[_Use]:
    counted: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for kind, most in _counted(request, market).items():
        group = quota_group(kind, facts)
        if group and kind in types:
            counted[group, _code(market, group, kind, facts)][kind] = most
    for (group, code), machines in sorted(counted.items()):
        yield _Use(
            market=market,
            group=group,
            code=code,
            quota=account.quota("ec2", code),
            most=machines,
            vcpus={kind: types[kind].vcpus for kind in machines},
        )


def _code(market: str, group: str, kind: str, facts: Facts) -> str:
    if market == "spot" and _P5.match(kind):
        return str(facts["quota.spot.p5"].value)
    return str(facts[f"quota.{market}"].value[group])


def _counted(request: StackRequest, market: str) -> Mapping[str, int]:
    """The head, where there is one, is always on demand."""
    if market == "spot":
        return request.fleet
    fleet = dict(request.fleet)
    if not request.head_type:
        return fleet
    return {**fleet, request.head_type: fleet.get(request.head_type, 0) + 1}


def _state(use: _Use, uses: Sequence[_Use], head_type: str) -> FindingState:
    """A quota that allows no machine is a warning where each comes by the other market."""
    if use.quota >= use.all_of_them:
        return FindingState.OK
    lacking = [kind for kind in use.most if not use.allows(kind)]
    elsewhere = [one for one in uses if one.market != use.market]
    lost = [kind for kind in lacking if not any(one.allows(kind) for one in elsewhere)]
    head_is_lost = use.market == "on_demand" and head_type in lacking
    return FindingState.FAILED if lost or head_is_lost else FindingState.WARNING


def _finding(use: _Use, state: FindingState, region: str) -> AccountFinding:
    return AccountFinding(
        "quotas",
        state,
        f"{use.market} {use.group} ({use.code})",
        f"{use.quota:.0f} vCPUs; the fleet takes up to {use.all_of_them}, its largest "
        f"machine {use.largest}",
        ""
        if state is FindingState.OK
        else "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code "
        f"{use.code} --desired-value {use.all_of_them} --region {region}",
    )
