"""Capacity planner: how many nodes of which kind, in which market, to request now.

Ray launches a node because agents are pending for it, as many as it has slots, and retries the same
market for ever. So no more agents are pending than trials are queued, and the market is chosen
here: spot for as long as it delivers, then on demand, and spot is not tried for that kind for a
while.

Pure bookkeeping: no clock, no network.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import final

from benchorch.domain.price import Market
from benchorch.executors.scheduling.cluster_file import NodeType, Placement


class MarketPolicy(StrEnum):
    """Markets in which nodes are launched."""

    SPOT = "spot"
    ON_DEMAND = "on_demand"
    SPOT_THEN_ON_DEMAND = "spot_then_on_demand"

    @property
    def markets(self) -> tuple[Market, ...]:
        """Markets in order of preference."""
        if self is MarketPolicy.SPOT_THEN_ON_DEMAND:
            return (Market.SPOT, Market.ON_DEMAND)
        return (Market(self.value),)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRules:
    """Limits and preferences for launching nodes.

    Attributes:
        node_types: what the cluster may launch.
        policy: in which markets.
        max_nodes: of a kind at a time, whatever the cluster allows; None for the cluster's limit.
        spot_wait_s: seconds to wait for spot capacity before falling back to on-demand.
        spot_retry_s: seconds after that until spot is tried again for a kind.
    """

    node_types: Sequence[NodeType]
    policy: MarketPolicy = MarketPolicy.SPOT_THEN_ON_DEMAND
    max_nodes: int | None = None
    spot_wait_s: float = 90.0
    spot_retry_s: float = 600.0

    def of(self, kind: str) -> tuple[NodeType, ...]:
        """The node types of a kind in the policy's markets, in order of preference."""
        found = {
            each.placement.market: each for each in self.node_types if each.placement.kind == kind
        }
        return tuple(found[market] for market in self.policy.markets if market in found)

    def slots(self, kind: str) -> int:
        """How many trials a machine of a kind measures side by side."""
        return max((node_type.slots for node_type in self.of(kind)), default=1)

    def undeclared(self, kind: str) -> str | None:
        """Why no node of this kind can be launched, or None."""
        if self.of(kind):
            return None
        declared = sorted({f"{n.placement.kind} ({n.placement.market})" for n in self.node_types})
        return (
            f"the cluster declares no {kind} in market {self.policy}; it declares: "
            f"{', '.join(declared) or 'nothing'}."
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The cluster now.

    Attributes:
        active: agents that have started.
        alive: nodes that are up.
        booting: nodes that were launched and have not joined yet.
        of_others: nodes that are up and that other sweeps use; none of them is in ``alive``.
    """

    active: Mapping[Placement, int] = field(default_factory=dict)
    alive: Mapping[Placement, int] = field(default_factory=dict)
    booting: Mapping[Placement, int] = field(default_factory=dict)
    of_others: Mapping[Placement, int] = field(default_factory=dict)

    def is_taken(self, node_type: NodeType) -> bool:
        """Whether other sweeps use all nodes of this type that the cluster may have."""
        return self.of_others.get(node_type.placement, 0) >= node_type.max_nodes


@final
@dataclass(slots=True)
class _Search:
    """The search for nodes of one kind.

    Attributes:
        market: in which nodes are requested; None if none are.
        since_s: since when spot has been requested with no node alive or booting.
        spot_from_s: until then spot is not tried.
    """

    market: Market | None = None
    since_s: float | None = None
    spot_from_s: float = float("-inf")


@final
class CapacityPlanner:
    """Decides what to request, poll after poll.

    Attributes:
        fallbacks: by kind, how often spot capacity did not come.
    """

    def __init__(self, rules: CapacityRules) -> None:
        self._rules = rules
        self._searches: dict[str, _Search] = {}
        self.fallbacks: Counter[str] = Counter()

    def requests(
        self, now_s: float, queued: Mapping[str, int], state: ClusterState
    ) -> dict[Placement, int]:
        """For how many agents a node should be requested now, by placement.

        Args:
            now_s: a monotonic time in seconds.
            queued: of each kind, how many trials wait for an agent.
            state: of the cluster.
        """
        found: dict[Placement, int] = {}
        for kind, count in queued.items():
            node_type = self._choose(kind, now_s, state) if count else None
            requested = min(count, self._left(node_type, state)) if node_type else 0
            if node_type is not None and requested > 0:
                found[node_type.placement] = requested
            else:
                search = self._searches.setdefault(kind, _Search())
                search.market = search.since_s = None
        return found

    def _left(self, node_type: NodeType, state: ClusterState) -> int:
        """For how many more agents there may be nodes of its kind."""
        kind = node_type.placement.kind
        active = sum(n for placement, n in state.active.items() if placement.kind == kind)
        limit = self._rules.max_nodes
        nodes = node_type.max_nodes if limit is None else min(node_type.max_nodes, limit)
        return nodes * node_type.slots - active

    def _choose(self, kind: str, now_s: float, state: ClusterState) -> NodeType | None:
        """The node type to request; remembers since when."""
        node_types = self._rules.of(kind)
        if not node_types:
            return None
        search = self._searches.setdefault(kind, _Search())
        if search.market is None:
            first = node_types[0] if now_s >= search.spot_from_s else node_types[-1]
            search.market = first.placement.market
        if search.market is Market.SPOT and len(node_types) > 1:
            self._fall_back(search, node_types[0], now_s, state)
        return next(each for each in node_types if each.placement.market is search.market)

    def _fall_back(
        self, search: _Search, node_type: NodeType, now_s: float, state: ClusterState
    ) -> None:
        """Turn to on-demand if spot has delivered nothing for too long."""
        spot = node_type.placement
        if state.alive.get(spot) or state.booting.get(spot) or state.is_taken(node_type):
            search.since_s = None
            return
        if search.since_s is None:
            search.since_s = now_s
        if now_s - search.since_s >= self._rules.spot_wait_s:
            search.market, search.since_s = Market.ON_DEMAND, None
            search.spot_from_s = now_s + self._rules.spot_retry_s
            self.fallbacks[spot.kind] += 1
