"""Throughput of calls that are all available from the start."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from benchorch.domain.measurement import Calibration, Observations
from benchorch.errors import MissedQuery
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.scenario import Scenario
from benchorch.interfaces.stopping import Stopping
from benchorch.scenarios.series import Series, cycled, fill, grown, nothing_answered
from benchorch.units import s_to_ns

# Long enough for a queue to fill and drain once without that showing in the rate.
LEAST_BLOCK_S = 0.1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Offline(Scenario):
    """MLPerf's offline: throughput of queries that are all available.

    Calls are issued without waiting for each other, and a block is over when the device has done
    all of its own. Garbage is collected as it would be in service, and noted. A query without an
    answer is counted as missed, and its items are not served ones.

    Attributes:
        min_duration_s: blocks add up to at least so many seconds.
    """

    pairing = "adjacent"

    min_duration_s: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.min_duration_s < math.inf:
            raise ValueError(f"min_duration_s: above 0; got {self.min_duration_s}")

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
        """Blocks of at least a tenth of a second, in turn over the calls."""
        try:
            series = self._blocks(calls, clock, calibration, stopping, cold_caches=cold_caches)
        except MissedQuery:  # rare, and only of remote models: the others are spared the counting
            guard = _Guard()
            guarded = [guard.over(call) for call in calls]
            series = self._blocks(
                guarded, clock, calibration, stopping, cold_caches=cold_caches, guard=guard
            )
        observed = series.observations(items_per_call)
        missed = sum(map(len, observed.missed.values()))
        if missed == len(observed.durations_ns) * observed.calls_per_block:
            raise nothing_answered("queries", observed.events, "look at the server's log")
        return observed

    def _blocks(
        self,
        calls: Sequence[Callable[[], object]],
        clock: Clock,
        calibration: Calibration,
        stopping: Stopping,
        *,
        cold_caches: bool,
        guard: _Guard | None = None,
    ) -> Series:
        def start(count: int) -> Series:
            size = min(count, len(calls))
            return Series(
                cycled(calls, size),
                clock,
                math.ceil(count / size),
                calls_per_turn=size,
                at_once=True,
                cold_caches=cold_caches,
                take_missed=guard.take if guard else None,
            )

        series = grown(start, s_to_ns(LEAST_BLOCK_S), calibration)
        fill(series, stopping, least_ns=s_to_ns(self.min_duration_s))
        return series


class _Guard:
    """Calls that go on where one has no answer, and the causes since they were last taken."""

    def __init__(self) -> None:
        self._causes: list[str] = []

    def over(self, call: Callable[[], object]) -> Callable[[], object]:
        """The call, its missing answer counted instead of raised."""

        def guarded() -> None:
            try:
                call()
            except MissedQuery as error:
                self._causes.append(error.cause)

        return guarded

    def take(self) -> list[str]:
        """The causes so far, which are then forgotten."""
        taken, self._causes = self._causes, []
        return taken
