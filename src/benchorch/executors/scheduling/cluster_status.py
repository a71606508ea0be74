"""Cluster status: launched and lost nodes, and reasons for missing ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from benchorch.executors.scheduling.capacity import CapacityRules
from benchorch.executors.scheduling.dispatcher import NoCapacity

_ON_STACK = "with executor=stack, where no executor was named"
_OTHER_CAPACITY = (
    "Ask for another size, change executor.market or raise executor.wait_s "
    f"({_ON_STACK}), or resume= later."
)
_BROKEN = "See monitor.log and monitor.err in the head's Ray logs; then resume=."
_QUOTA = "Raise the account's quota: make provision-check names it with the command; then resume=."
LAUNCH_REMEDIES: Mapping[str, str] = {
    "InsufficientInstanceCapacity": _OTHER_CAPACITY,
    "VcpuLimitExceeded": _QUOTA,
    "MaxSpotInstanceCountExceeded": _QUOTA,
    "UnauthorizedOperation": (
        "The head's policy allows no such launch: make provision with this fleet, then resume=; or "
        "the stack's monthly_budget_usd is spent (docs/cloud/aws.md, What ends it)."
    ),
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": (
        "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com, then resume=; "
        f"or executor.market=on_demand ({_ON_STACK})."
    ),
    "SignatureDoesNotMatch": (
        "The head's clock is not AWS's: on the head, timedatectl and chronyc tracking; or end the "
        "head (docs/cloud/aws.md) and run it again with resume=."
    ),
}
"""Remedies for calls that EC2 refuses to the autoscaler, by error code."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchStatus:
    """Launches reported by Ray's autoscaler.

    Attributes:
        booting: nodes that were launched and have not joined, by the cluster file's node type.
        last_error: why the last failed launch failed, or an empty string.
        stopped: why nothing will be launched any more, or an empty string.
        failed_starts: by hardware kind, each node that booted and could not join, and why.
    """

    booting: Mapping[str, int] = field(default_factory=dict)
    last_error: str = ""
    stopped: str = ""
    failed_starts: Mapping[str, Sequence[str]] = field(default_factory=dict)


def explain_no_capacity(
    kind: str, rules: CapacityRules, fallbacks: int, launches: LaunchStatus, of_others: int = 0
) -> NoCapacity:
    """Why no node of a kind has come.

    Args:
        fallbacks: how often spot capacity did not come.
        of_others: how many nodes of the kind other sweeps use.
    """
    undeclared = rules.undeclared(kind)
    if undeclared is not None:
        return NoCapacity(
            failure="no_node",
            reason=undeclared[0].upper() + undeclared[1:].rstrip("."),
            remedy="Declare it in the fleet (docs/cloud/fleet.md), or change executor.market "
            f"({_ON_STACK}).",
        )
    error = launches.last_error
    if launches.stopped:
        last = f"; the last error: {error}" if error else ""
        return NoCapacity(
            failure="no_node",
            reason=f"Nothing is launched: {launches.stopped}{last}",
            remedy=_remedy(error) or _BROKEN,
        )
    failures = launches.failed_starts.get(kind, ())
    if failures:
        return NoCapacity(
            failure="no_node",
            reason=f"{len(failures)} {kind} booted and could not start; {failures[-1]}",
            remedy="The log's end is in starts/ of the stack's bucket. After a repair: resume=.",
        )
    markets = " and then ".join(str(each.placement.market) for each in rules.of(kind))
    failed = f", spot {fallbacks} time(s) in vain" if fallbacks else ""
    taken = f", other sweeps use {of_others}" if of_others else ""
    last = f"; the last error: {error}" if error else ""
    return NoCapacity(
        failure="no_capacity",
        reason=f"No {kind} came ({markets}{failed}{taken}){last}",
        remedy=_remedy(error) or _OTHER_CAPACITY,
    )


def _remedy(error: str) -> str | None:
    found = (remedy for code, remedy in LAUNCH_REMEDIES.items() if code in error)
    return next(found, None)
