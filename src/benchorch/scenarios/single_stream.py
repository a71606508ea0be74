"""One call in flight, the next one after the previous completes."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

from benchorch.domain.measurement import Calibration, Observations
from benchorch.errors import MeasureError
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.scenario import Scenario
from benchorch.interfaces.stopping import Stopping

# A block this many times longer than a read costs, and than the clock can resolve, carries at
# most 0.1 % of either. No longer: longer blocks average interruptions in.
READS_PER_BLOCK = 1000
SIZING_BLOCKS = 5
MOST_GROWTH = 10
_STALLED_AFTER_CALLS = 10**7
_LONGEST_NS = 2**62


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SingleStream(Scenario):
    """MLPerf's single stream: the latency of a call when nothing else is asked for."""

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
        """Every block from the first, in turn over the calls.

        A block holds one call, unless that is too short for the clock: then the fewest calls that
        are not. Blocks tried and found too short are the only ones not kept.
        """
        if not calls:
            raise ValueError("a scenario needs at least one call; it got none")
        with quiet_heap():
            series = _sized(calls, clock, calibration)
            while not stopping.enough_calls(series.durations_ns, series.repeats):
                series.add_block()
                series.check(calibration.pair_cost_ns)
        return series.observations(items_per_call)


def _sized(
    calls: Sequence[Callable[[], object]], clock: Clock, calibration: Calibration
) -> _Series:
    """The first blocks, of the fewest calls that the clock can tell from nothing."""
    least_ns = READS_PER_BLOCK * max(calibration.pair_cost_ns, calibration.step_ns)
    # A reading may be one step too long, so the shortest must clear the rule by one.
    least_ns += calibration.step_ns
    repeats = 1
    while True:
        series = _Series(calls, clock, repeats)
        for _ in range(SIZING_BLOCKS):
            series.add_block()
        shortest_ns = min(series.durations_ns)
        if shortest_ns >= least_ns:
            return series
        if shortest_ns == 0 and repeats >= _STALLED_AFTER_CALLS:
            raise _fault(f"{repeats} calls took no time at all: the clock stands still")
        repeats = _more(repeats, shortest_ns, least_ns)


def _more(repeats: int, shortest_ns: int, least_ns: float) -> int:
    """The next number of calls to try: at most tenfold, as short blocks are told but roughly."""
    if shortest_ns * MOST_GROWTH <= least_ns:
        return repeats * MOST_GROWTH
    return max(repeats + 1, math.ceil(repeats * least_ns / shortest_ns))


class _Series:
    """The blocks of one run so far."""

    def __init__(self, calls: Sequence[Callable[[], object]], clock: Clock, repeats: int) -> None:
        self.repeats = repeats
        self.durations_ns: list[int] = []
        self._starts_ns: list[int] = []
        self._preempted: list[bool] = []
        self._calls = calls
        self._clock = clock

    def add_block(self) -> None:
        """Time one block; counters are read outside the timed region."""
        clock = self._clock
        call = self._calls[len(self.durations_ns) % len(self._calls)]
        before = clock.counts().preemptions
        started_ns = clock.now_ns()
        duration_ns = clock.time_block(call, self.repeats).wall
        after = clock.counts().preemptions
        if not 0 <= duration_ns < _LONGEST_NS:
            raise _fault(f"a block of {self.repeats} calls took {duration_ns} ns")
        if self._starts_ns and started_ns < self._starts_ns[-1] + self.durations_ns[-1]:
            raise _fault("a block started before the one before it had ended")
        self._starts_ns.append(started_ns)
        self.durations_ns.append(duration_ns)
        self._preempted.append(after != before)

    def check(self, read_cost_ns: float) -> None:
        """Refuse a last block shorter than reading the clock, now that blocks are long enough."""
        duration_ns = self.durations_ns[-1]
        if duration_ns == 0 or duration_ns < read_cost_ns:
            raise _fault(
                f"a block of {self.repeats} calls took {duration_ns} ns, "
                f"less than the {read_cost_ns:.0f} ns of reading the clock"
            )

    def observations(self, items_per_call: int) -> Observations:
        """The blocks as they are stored."""
        origin_ns = self._starts_ns[0]
        return Observations(
            durations_ns=tuple(self.durations_ns),
            started_ns=tuple(start - origin_ns for start in self._starts_ns),
            calls_per_block=self.repeats,
            items_per_call=items_per_call,
            preempted=tuple(self._preempted),
        )


def _fault(saw: str) -> MeasureError:
    return MeasureError(
        f"The clock contradicts itself: {saw}.",
        kind="instrument_fault",
        remedy="run it again; if it repeats, this machine's clock cannot be trusted",
    )


@contextmanager
def quiet_heap() -> Iterator[None]:
    """No garbage collection inside; afterwards it is as it was."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
