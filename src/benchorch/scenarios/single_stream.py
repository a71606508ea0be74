"""One call in flight; the next one starts after the previous one completes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from benchorch.domain.measurement import Calibration, Observations
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.scenario import Scenario
from benchorch.interfaces.stopping import Stopping
from benchorch.scenarios.series import fill, quiet_heap, sized


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SingleStream(Scenario):
    """MLPerf's single stream: latency of a call without concurrent calls."""

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
        """Every block from the first, in turn over the calls.

        A block holds one call, unless that is too short for the clock: then the fewest calls that
        are not. Blocks tried and found too short are the only ones not kept.
        """
        with quiet_heap():
            series = sized(calls, clock, calibration, cold_caches=cold_caches)
            fill(series, stopping)
        return series.observations(items_per_call)
