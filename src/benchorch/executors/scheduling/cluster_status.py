"""What a cluster tells of machines that come and go, and why none has come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, final

from benchorch.executors.scheduling.capacity import CapacityPlanner, CapacityRules
from benchorch.executors.scheduling.dispatcher import NoCapacity


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PendingNode:
    """What Ray's autoscaler says of the machines it launches.

    Attributes:
        booting: machines that were launched and have not joined, by the cluster file's node type.
        trouble: the last reason why one could not be launched, or an empty string.
        dead: why nothing will be launched any more, or an empty string.
    """

    booting: Mapping[str, int] = field(default_factory=dict)
    trouble: str = ""
    dead: str = ""


class AutoscalerStatus(Protocol):
    """What else a cluster tells of itself."""

    def answers(self) -> bool:
        """Whether it can be asked anything now; ExecutorError once it never will be again."""
        ...

    def draining(self) -> Iterable[str]:
        """The ids of nodes that will be gone soon."""
        ...

    def drain(self, node: str, reason: str) -> None:
        """Have nothing more begun on a node; what runs there may end."""
        ...

    def launching(self) -> PendingNode:
        """What the autoscaler is about."""
        ...


@final
class NoInsight:
    """A cluster that tells nothing else."""

    def answers(self) -> bool:
        """Nothing else is known."""
        return True

    def draining(self) -> Iterable[str]:
        """None that is known of."""
        return ()

    def drain(self, node: str, reason: str) -> None:
        """Nobody to be asked."""

    def launching(self) -> PendingNode:
        """Nothing that is known of."""
        return PendingNode()


def no_machine(
    kind: str, rules: CapacityRules, recruiter: CapacityPlanner, launching: PendingNode
) -> NoCapacity:
    """Why no machine of a kind has come."""
    refusal = rules.refusal(kind)
    if refusal is not None:
        return NoCapacity(
            failure="no_node",
            reason=refusal[0].upper() + refusal[1:].rstrip("."),
            remedy="Declare it in the fleet (docs/cloud/fleet.md), or change executor.market.",
        )
    if launching.dead:
        return NoCapacity(
            failure="no_node",
            reason=f"Nothing is launched: {launching.dead}",
            remedy="See monitor.log and monitor.err in the head's Ray logs; then resume=.",
        )
    markets = " and then ".join(str(offer.post.market) for offer in rules.of(kind))
    told = f"; the last launch said: {launching.trouble}" if launching.trouble else ""
    failed = (
        f", spot {recruiter.fallbacks[kind]} time(s) in vain" if recruiter.fallbacks[kind] else ""
    )
    return NoCapacity(
        failure="no_capacity",
        reason=f"No {kind} came ({markets}{failed}){told}",
        remedy="Ask for another size or market, raise executor.wait_s, or resume= later.",
    )
