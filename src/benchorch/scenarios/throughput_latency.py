"""Response times as a function of the query rate, up to capacity."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from benchorch.scenarios.arrivals import seeds
from benchorch.scenarios.open_loop import LoadRun, OpenLoop


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputLatency(OpenLoop):
    """Response times at several shares of the capacity, which is measured first.

    Rates come in random order, so that a machine that slowly changes bends no end of the curve,
    and every one more than once. With `target_ms`, the highest rate that keeps it is estimated from
    all the curve's points.

    Attributes:
        fractions: of the capacity.
        replicates: how often each is offered.
        seed: of the order, too.
    """

    several_rates = True

    fractions: tuple[float, ...] = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)
    replicates: int = 2
    duration_s: float = 10.0
    min_queries: int = 150

    def __post_init__(self) -> None:
        object.__setattr__(self, "fractions", tuple(self.fractions))
        OpenLoop.__post_init__(self)

    @property
    def schedules_s(self) -> float:
        """Of every replicate of every fraction."""
        return len(self.fractions) * self.replicates * self.load_s

    def own_rules(self) -> Mapping[str, bool]:
        """The bounds of fractions and replicates."""
        return {
            "fractions: at least one, each above 0, at most 2": (
                bool(self.fractions) and all(0 < share <= 2 for share in self.fractions)
            ),
            "replicates: at least 1": self.replicates >= 1,
        }

    def offer_loads(self, run: LoadRun) -> None:
        """Capacity, then every replicate of every fraction in random order."""
        capacity_per_s = run.capacity_per_s()
        seed = self.chosen_seed()
        shares = [share for share in self.fractions for _ in range(self.replicates)]
        random.Random(seed).shuffle(shares)
        for share, schedule in zip(shares, seeds(seed, len(shares)), strict=True):
            rate_per_s = share * capacity_per_s
            run.offer(rate_per_s, self.queries(rate_per_s), schedule, utilisation_ratio=share)
