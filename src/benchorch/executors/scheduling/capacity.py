"""How many machines of which kind, in which market, should be asked for now?

Ray launches a machine because an agent waits for one, and tries the same market for ever. So no
more agents wait than trials do, and the choice of market is made here: spot for as long as one
comes, then on demand, and the kind counts as dry for a while.

Pure bookkeeping: no clock, no network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import final

from benchorch.domain.price import Market
from benchorch.executors.scheduling.cluster_file import NodeType, Placement


class MarketPolicy(StrEnum):
    """In which markets machines are hired."""

    SPOT = "spot"
    ON_DEMAND = "on_demand"
    SPOT_THEN_ON_DEMAND = "spot_then_on_demand"

    @property
    def markets(self) -> tuple[Market, ...]:
        """The first one to try first."""
        if self is MarketPolicy.SPOT_THEN_ON_DEMAND:
            return (Market.SPOT, Market.ON_DEMAND)
        return (Market(self.value),)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRules:
    """What may be hired, and how.

    Attributes:
        offers: what the cluster may launch.
        policy: in which markets.
        most: of a kind at a time, whatever the cluster allows; None for no limit of its own.
        spot_wait_s: so long spot is tried without a machine before on demand is.
        dry_s: so long spot is not tried again for a kind after that.
    """

    offers: Sequence[NodeType]
    policy: MarketPolicy = MarketPolicy.SPOT_THEN_ON_DEMAND
    most: int | None = None
    spot_wait_s: float = 90.0
    dry_s: float = 600.0

    def of(self, kind: str) -> tuple[NodeType, ...]:
        """What there is of a kind in the policy's markets, the first one to try first."""
        found = {offer.post.market: offer for offer in self.offers if offer.post.kind == kind}
        return tuple(found[market] for market in self.policy.markets if market in found)

    def refusal(self, kind: str) -> str | None:
        """Why no machine of this kind can be hired, or None."""
        if self.of(kind):
            return None
        declared = sorted({f"{o.post.kind} ({o.post.market})" for o in self.offers})
        return (
            f"the cluster declares no {kind} in market {self.policy}; it declares: "
            f"{', '.join(declared) or 'nothing'}."
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """What is there now.

    Attributes:
        aboard: agents that are at work or can be, by where they are.
        living: nodes that are alive.
        booting: machines that were launched and have not joined yet.
    """

    aboard: Mapping[Placement, int] = field(default_factory=dict)
    living: Mapping[Placement, int] = field(default_factory=dict)
    booting: Mapping[Placement, int] = field(default_factory=dict)


@final
@dataclass(slots=True)
class _Search:
    """For machines of one kind.

    Attributes:
        market: in which machines are being asked for; None where none is.
        since_s: since when spot was asked for and none lives or boots.
        dry_until_s: until then spot is not tried.
    """

    market: Market | None = None
    since_s: float | None = None
    dry_until_s: float = float("-inf")


@final
class CapacityPlanner:
    """Decides what is asked for, look after look."""

    def __init__(self, rules: CapacityRules) -> None:
        self._rules = rules
        self._searches: dict[str, _Search] = {}
        self.fallbacks: Counter[str] = Counter()

    def openings(
        self, now_s: float, waiting: Mapping[str, int], census: ClusterState
    ) -> dict[Placement, int]:
        """For how many agents a machine should be sought now, by kind and market.

        Args:
            now_s: a monotonic time in seconds.
            waiting: of each kind, how many trials wait for an agent.
            census: what is there.
        """
        found: dict[Placement, int] = {}
        for kind, count in waiting.items():
            offer = self._choose(kind, now_s, census) if count else None
            sought = min(count, self._room(offer, census)) if offer else 0
            if offer is not None and sought > 0:
                found[offer.post] = sought
            else:
                search = self._searches.setdefault(kind, _Search())
                search.market = search.since_s = None
        return found

    def _room(self, offer: NodeType, census: ClusterState) -> int:
        """How many more of its kind there may be."""
        here = sum(n for post, n in census.aboard.items() if post.kind == offer.post.kind)
        most = offer.most if self._rules.most is None else min(offer.most, self._rules.most)
        return most - here

    def _choose(self, kind: str, now_s: float, census: ClusterState) -> NodeType | None:
        """The offer to ask for; remembers since when."""
        offers = self._rules.of(kind)
        if not offers:
            return None
        search = self._searches.setdefault(kind, _Search())
        if search.market is None:
            search.market = self._first(offers, now_s >= search.dry_until_s).post.market
        if search.market is Market.SPOT and len(offers) > 1:
            self._doubt(search, offers[0].post, now_s, census)
        return next(offer for offer in offers if offer.post.market is search.market)

    def _first(self, offers: Sequence[NodeType], spot_may_come: bool) -> NodeType:
        return offers[0] if spot_may_come else offers[-1]

    def _doubt(self, search: _Search, spot: Placement, now_s: float, census: ClusterState) -> None:
        """Turn to on demand where spot has brought nothing for too long."""
        if census.living.get(spot) or census.booting.get(spot):
            search.since_s = None
            return
        if search.since_s is None:
            search.since_s = now_s
        if now_s - search.since_s >= self._rules.spot_wait_s:
            search.market, search.since_s = Market.ON_DEMAND, None
            search.dry_until_s = now_s + self._rules.dry_s
            self.fallbacks[spot.kind] += 1
