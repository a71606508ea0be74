"""Can machines of these types be had now? Offer, quota, and how each type is sold."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import final

from benchorch.hardware.aws_account.account import AwsAccount, NotAnswered
from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState
from benchorch.hardware.aws_account.machine_types import (
    MachineType,
    check_accelerators,
    check_offers,
    machine_types,
)
from benchorch.hardware.aws_account.quotas import check_quotas
from benchorch.hardware.aws_account.request import StackRequest

BLOCK = "capacity-block"
_CLASSES = {"on_demand": "on-demand", "spot": "spot"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """Findings about one machine of each kind, in a stack's region.

    Attributes:
        markets: in which machines are launched, in order of preference.
    """

    account: AwsAccount
    kinds: Sequence[str]
    markets: Sequence[str]
    facts: Facts

    def findings(self) -> Sequence[AccountFinding]:
        """Findings of all checks; a refused call is a finding, too."""
        checks: list[Callable[[], Iterable[AccountFinding]]] = [
            self._offers,
            self._types_and_quotas,
        ]
        with ThreadPoolExecutor(max_workers=len(checks)) as pool:
            return [one for found in pool.map(_answered, checks) for one in found]

    def _offers(self) -> Iterator[AccountFinding]:
        return check_offers(self.account, self.kinds, self.account.region)

    def _types_and_quotas(self) -> Iterator[AccountFinding]:
        types = machine_types(self.account, self.kinds)
        yield from check_accelerators(types)
        yield from self._sold(types)
        request = StackRequest(
            name="",
            region=self.account.region,
            fleet=dict.fromkeys(self.kinds, 1),
            markets=self.markets,
            head_type="",
        )
        yield from check_quotas(self.account, request, types, self.facts)

    def _sold(self, types: Mapping[str, MachineType]) -> Iterator[AccountFinding]:
        """Types that are not sold by the hour in a market, and those sold in blocks as well."""
        for kind, machine in types.items():
            sold = machine.usage_classes
            lacking = [one for one in self.markets if sold and _CLASSES[one] not in sold]
            if len(lacking) == len(self.markets):
                yield AccountFinding(
                    "sold",
                    FindingState.FAILED,
                    kind,
                    f"is sold as {', '.join(sold)}, not as {' or '.join(lacking)}",
                    "Take another type; the stack launches into no capacity block.",
                )
            elif BLOCK in sold:
                yield AccountFinding(
                    "sold",
                    FindingState.WARNING,
                    kind,
                    "is sold in capacity blocks too, and is scarce by the hour",
                    "Expect no_capacity; the stack launches into no capacity block.",
                )


def _answered(check: Callable[[], Iterable[AccountFinding]]) -> Sequence[AccountFinding]:
    """A check's findings; what it found before a call was refused is kept."""
    found: list[AccountFinding] = []
    try:
        found.extend(check())
    except NotAnswered as error:
        remedy = "Allow this read-only call in a policy of the caller." if error.denied else ""
        found.append(AccountFinding("preflight", FindingState.UNKNOWN, "AWS", str(error), remedy))
    return found
