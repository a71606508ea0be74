"""Response times of queries that arrive by a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from benchorch.domain.measurement import Calibration, Observations
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.scenario import Scenario
from benchorch.interfaces.stopping import Stopping
from benchorch.scenarios.arrivals import Kind
from benchorch.scenarios.open_loop import LoadRun
from benchorch.scenarios.options import positive, queries, require, seed_of


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Server(Scenario):
    """MLPerf's server: queries come by a schedule that was drawn before the run.

    A response is counted from when its query was due, so that one slow call delays, in the figures
    as in service, all that wait behind it. The schedule decides when a process has seen enough,
    since a rule that looks at completions would end runs on luck; `stopping` decides how many
    processes there are. Not to be confused with calls in a loop that are started at some rate:
    those wait for each other unseen.

    Attributes:
        rate_per_s: queries a second; null takes `utilisation_ratio`.
        utilisation_ratio: the rate as a share of the capacity, which is measured first.
        arrivals: ``poisson``, ``constant`` or ``bursty``.
        cv: of the gaps of bursty arrivals.
        servers: how many calls may run side by side, each in a thread of its own.
        max_batch: how many waiting queries a server takes at once; they complete together.
        duration_s: of the schedule.
        min_queries: for which the schedule is prolonged, up to five times its duration; 662 are
            what p99 takes to be shown with one violation.
        target_ms: what responses should stay within, or null.
        quantile_ratio: the share of them that should.
        capacity_s: how long the capacity is measured, where it is.
        seed: of the schedule; null draws one for every process, and it is recorded.
    """

    pairing: ClassVar[str] = "none"

    rate_per_s: float | None = None
    utilisation_ratio: float = 0.7
    arrivals: Kind = "poisson"
    cv: float = 2.0
    servers: int = 1
    max_batch: int = 1
    duration_s: float = 60.0
    min_queries: int = 662
    target_ms: float | None = None
    quantile_ratio: float = 0.99
    capacity_s: float = 2.0
    seed: int | None = None

    def __post_init__(self) -> None:
        require(
            self,
            {
                "rate_per_s: above 0, or null": positive(self.rate_per_s),
                "utilisation_ratio: above 0, at most 2": 0 < self.utilisation_ratio <= 2,
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
        """One stretch at one rate; before it, where no rate is named, one at full speed."""
        session = LoadRun(self, calls, clock, cold_caches=cold_caches)
        rate_per_s, share = self.rate_per_s, None
        if rate_per_s is None:
            share = self.utilisation_ratio
            rate_per_s = share * session.capacity_per_s()
        count = queries(rate_per_s, self.duration_s, self.min_queries)
        session.offer(rate_per_s, count, seed_of(self), utilisation_ratio=share)
        return session.observations(items_per_call)
