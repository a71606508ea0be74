"""Queries of several calls, the next query after the previous completes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

from benchorch.domain.measurement import Calibration, Observations
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.scenario import Scenario
from benchorch.interfaces.stopping import Stopping
from benchorch.scenarios.series import MOST_IN_FLIGHT, cycled, fill, quiet_heap, sized


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MultiStream(Scenario):
    """MLPerf's multi-stream: latency of a query of several samples.

    A query makes its calls one after the other on inputs that differ, at most two of them
    unfinished on the device, and is complete when the last one is.

    Attributes:
        samples_per_query: calls that one query is made of.
    """

    # Turns are of single calls, which say nothing of whole queries.
    pairing = "adjacent"

    samples_per_query: int = 8

    def __post_init__(self) -> None:
        if self.samples_per_query < 1:
            raise ValueError(f"samples_per_query: at least 1; got {self.samples_per_query}")

    def run(
        self,
        calls: Sequence[Callable[[], object]],
        *,
        clock: Clock,
        calibration: Calibration,
        stopping: Stopping,
        items_per_call: float,
        cold_caches: bool = False,
    ) -> Observations:
        """Every block from the first, each of one query unless that is too short for the clock."""
        size = self.samples_per_query
        queries = cycled(calls, size, drain=clock.drain)
        with quiet_heap():
            series = sized(
                queries, clock, calibration, calls_per_turn=size, cold_caches=cold_caches
            )
            fill(series, stopping)
        observed = series.observations(items_per_call, calls_per_query=size)
        # Waiting inside a query is part of what its issue and the device's events would tell.
        return observed if size <= MOST_IN_FLIGHT else replace(observed, issue_ns=(), device_ns=())
