"""Response times of queries that arrive by a schedule."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from benchorch.scenarios.open_loop import LoadRun, OpenLoop, positive


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Server(OpenLoop):
    """MLPerf's server: queries come by a schedule that was drawn before the run.

    Not to be confused with calls in a loop that are started at some rate: there the delay of
    waiting calls goes unmeasured.

    Attributes:
        rate_per_s: queries a second; null takes `utilisation_ratio`.
        utilisation_ratio: the rate as a share of the capacity, which is measured first.
    """

    rate_per_s: float | None = None
    utilisation_ratio: float = 0.7

    def own_rules(self) -> Mapping[str, bool]:
        """The bounds of the rate."""
        return {
            "rate_per_s: above 0, or null": self.rate_per_s is None or positive(self.rate_per_s),
            "utilisation_ratio: above 0, at most 2": 0 < self.utilisation_ratio <= 2,
        }

    def offer_loads(self, run: LoadRun) -> None:
        """Offer load at one rate; without a given rate, measure the capacity first."""
        rate_per_s, share = self.rate_per_s, None
        if rate_per_s is None:
            share = self.utilisation_ratio
            rate_per_s = share * run.capacity_per_s()
        count = self.queries(rate_per_s)
        run.offer(rate_per_s, count, self.chosen_seed(), utilisation_ratio=share)
