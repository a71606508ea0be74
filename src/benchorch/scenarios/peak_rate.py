"""Highest query rate whose response times stay within a target."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from benchorch.scenarios.arrivals import seeds
from benchorch.scenarios.open_loop import MOST_QUERIES, LoadRun, OpenLoop, positive
from benchorch.stats.binomial_bound import Target
from benchorch.stats.peak_rate import Belief, Probe, belief, never, probe
from benchorch.units import ns_to_s

# The first probe is to see so many violations if its rate is the one looked for ...
FIRST_VIOLATIONS = 20
# ... and each after it is longer, up to so many times the first.
GROWTH_RATIO = 1.5
LONGEST_RATIO = 20
# Probes lie on both sides of the estimate, no farther from it than this: its evidence fades.
FARTHEST_PROBE_RATIO = 1.5
# No probe takes more of the budget than this: a slow model is to be probed more than once, too.
BUDGET_SHARE = 1 / 12
LEAST_QUERIES = 12
MOST_PROBES = 60


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PeakRate(OpenLoop):
    """The highest rate at which a quantile of responses stays within a target.

    The capacity is measured first. Then probes offer rates below and above the one that is as
    likely too high as too low by all that was counted so far; the search ends when that is known
    well enough, or when its budget is spent. At the rate that is very likely not too high a run of
    full length follows.
    Every probe is kept, and the answer follows from them. Where service alone is slower than the
    target there is nothing to search, and the trial says so.

    Not to be confused with bisection that trusts each probe: a short one at a good rate may fail by
    chance, and then all that is better is never tried.

    Attributes:
        target_ms: the limit of response times.
        width_ratio: how wide the answer's 90 % interval may be.
        budget_s: seconds for the search, without the run that follows it.
        duration_s, min_queries: of the run that follows.
    """

    several_rates = True

    target_ms: float
    width_ratio: float = 0.03
    budget_s: float = 120.0

    @property
    def schedules_s(self) -> float:
        """Of the search and of the run that follows it."""
        return self.budget_s + self.load_s

    def own_rules(self) -> Mapping[str, bool]:
        """The bounds of width and budget."""
        return {
            "width_ratio: between 0 and 1": 0 < self.width_ratio < 1,
            "budget_s: above 0": positive(self.budget_s),
        }

    def offer_loads(self, run: LoadRun) -> None:
        """Capacity, probes and confirmation, each a load of its own."""
        capacity_per_s = run.capacity_per_s()
        target = Target(target_ms=self.target_ms, quantile_ratio=self.quantile_ratio)
        if not never(run.last(), target):
            self._search(run, target, capacity_per_s)

    def _search(self, run: LoadRun, target: Target, capacity_per_s: float) -> None:
        """Probe at the current estimate of the peak rate, then confirm it if there was a probe."""
        schedules = seeds(self.chosen_seed(), MOST_PROBES + 1)
        started_ns = run.now_ns()
        probes: list[Probe] = []
        found = belief(probes, capacity_per_s, self.quantile_ratio)
        while True:
            rate_per_s = _next_rate(len(probes), found)
            left_s = self.budget_s - ns_to_s(run.now_ns() - started_ns)
            count = self._next_length(rate_per_s, len(probes), found, left_s)
            if not count:
                break
            run.offer(rate_per_s, count, schedules[len(probes)], purpose="probe")
            probes.append(probe(run.last(), target))
            found = belief(probes, capacity_per_s, self.quantile_ratio)
        if probes:
            count = self.queries(found.low)
            run.offer(found.low, count, schedules[-1], purpose="confirmation")

    def _next_length(self, rate_per_s: float, probed: int, found: Belief, left_s: float) -> int:
        """Number of queries of the next probe; 0 to end the search."""
        good = probed > 0 and found.width_ratio <= self.width_ratio
        if good or probed == MOST_PROBES or rate_per_s * left_s < LEAST_QUERIES:
            return 0
        first = FIRST_VIOLATIONS / (1.0 - self.quantile_ratio)
        length = first * min(GROWTH_RATIO**probed, LONGEST_RATIO)
        affordable = rate_per_s * min(left_s, self.budget_s * BUDGET_SHARE)
        return math.ceil(max(min(length, affordable, MOST_QUERIES), LEAST_QUERIES))


def _next_rate(probed: int, found: Belief) -> float:
    """Midway between the estimate and an end of its interval: the upper, then the lower, and so on.

    Probes at the estimate alone would not show how steeply violations rise around it, on which its
    interval depends. The first rate is the upper one wherever it lies: it takes the least time.
    """
    midway = math.sqrt((found.low if probed % 2 else found.high) / found.value)
    if probed:
        midway = min(max(midway, 1.0 / FARTHEST_PROBE_RATIO), FARTHEST_PROBE_RATIO)
    return found.value * midway
