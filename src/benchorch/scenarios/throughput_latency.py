"""Response times as a function of the query rate, up to capacity."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from benchorch.domain.measurement import Calibration, Observations
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.scenario import Scenario
from benchorch.interfaces.stopping import Stopping
from benchorch.scenarios.arrivals import Kind, seeds
from benchorch.scenarios.open_loop import LoadRun
from benchorch.scenarios.options import queries, require, seed_of


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputLatency(Scenario):
    """Response times at several shares of the capacity, which is measured first.

    Rates come in random order, so that a machine that slowly changes bends no end of the curve,
    and every one more than once.

    Attributes:
        fractions: of the capacity.
        replicates: how often each is offered.
        duration_s, min_queries: of each, as for `Server`.
        target_ms, quantile_ratio: what responses should do, or null: then the highest rate at
            which they do is estimated from all the curve's points.
        arrivals, cv, servers, max_batch, capacity_s: as for `Server`.
        seed: of the order and of all schedules; null draws one for every process.
    """

    pairing: ClassVar[str] = "none"

    fractions: tuple[float, ...] = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)
    replicates: int = 2
    duration_s: float = 10.0
    min_queries: int = 150
    target_ms: float | None = None
    quantile_ratio: float = 0.99
    arrivals: Kind = "poisson"
    cv: float = 2.0
    servers: int = 1
    max_batch: int = 1
    capacity_s: float = 2.0
    seed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fractions", tuple(self.fractions))
        require(
            self,
            {
                "fractions: at least one, each above 0, at most 2": (
                    bool(self.fractions) and all(0 < share <= 2 for share in self.fractions)
                ),
                "replicates: at least 1": self.replicates >= 1,
            },
        )

    def run(
        self,
        calls: Sequence[Callable[[], object]],
        *,
        clock: Clock,
        calibration: Calibration,
        stopping: Stopping,
        items_per_call: int,
        cold_caches: bool = False,
    ) -> Observations:
        """Capacity, then every fraction as often as asked for, in random order."""
        session = LoadRun(self, calls, clock, cold_caches=cold_caches)
        capacity_per_s = session.capacity_per_s()
        seed = seed_of(self)
        shares = [share for share in self.fractions for _ in range(self.replicates)]
        random.Random(seed).shuffle(shares)
        for share, schedule in zip(shares, seeds(seed, len(shares)), strict=True):
            rate_per_s = share * capacity_per_s
            count = queries(rate_per_s, self.duration_s, self.min_queries)
            session.offer(rate_per_s, count, schedule, utilisation_ratio=share)
        return session.observations(items_per_call)
