"""Helpers of all host clocks: the cost of a read, and event counts of the process."""

import gc
import statistics
import sys
from collections.abc import Callable, Mapping
from functools import cache
from time import perf_counter_ns, sleep

from benchorch.domain.measurement import Calibration
from benchorch.errors import MeasureError
from benchorch.interfaces.hardware import Counts
from benchorch.units import ns_to_s

CALIBRATION_READS = 10_000
# Sleep is late by tens of microseconds; the rest of the wait is spent reading the clock.
SPIN_NS = 250_000


def own_preemptions() -> int:
    """Involuntary context switches of the calling thread so far."""
    import resource  # absent on Windows, which plans and reports

    who = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # macOS counts processes alone
    return resource.getrusage(who).ru_nivcsw


def own_counts(*, allocator_retries: int = 0) -> Counts:
    """Event counts of this process so far; a call takes 1 to 2 µs."""
    return Counts(own_preemptions(), _collector().count, _compilations(), allocator_retries)


class _Collector:
    """Counts runs of the garbage collector from its first use on."""

    def __init__(self) -> None:
        self.count = 0
        gc.callbacks.append(self._told)

    def _told(self, phase: str, _: Mapping[str, int]) -> None:
        self.count += phase == "stop"


@cache
def _collector() -> _Collector:
    return _Collector()


def _compilations() -> int:
    """Frames and graphs compiled by torch, recompilations included.

    Whole-graph compilation counts graphs alone. Only a rise means anything: the counters are
    torch's own and may be cleared.
    """
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", None)
    if counters is None:
        return 0
    return int(counters["frames"]["total"] + counters["stats"]["unique_graphs"])


def spin_until(due_ns: int) -> None:
    """Return as soon after a time of the performance counter as can be."""
    ahead_ns = due_ns - perf_counter_ns()
    if ahead_ns > SPIN_NS:
        sleep(ns_to_s(ahead_ns - SPIN_NS))
    while perf_counter_ns() < due_ns:
        pass


def calibrate_reads(read: Callable[[], int] = perf_counter_ns) -> Calibration:
    """Cost of reading a clock; MeasureError if it stands still or steps back."""
    pairs = []
    for _ in range(CALIBRATION_READS):
        first_ns = read()
        pairs.append(read() - first_ns)
    steps = [pair for pair in pairs if pair > 0]
    if min(pairs) < 0 or not steps:
        saw = "it steps back" if min(pairs) < 0 else "it stands still"
        raise MeasureError(
            f"The clock contradicts itself: over {CALIBRATION_READS} reads {saw}.",
            kind="instrument_fault",
            remedy="run it again; if it repeats, this machine's clock cannot be trusted",
        )
    return Calibration(
        pair_cost_ns=float(statistics.median(pairs)),
        step_ns=float(min(steps)),
        loop_turn_ns=_loop_turn_ns(read),
    )


def _loop_turn_ns(read: Callable[[], int]) -> float:
    """Cost of one iteration of an empty loop: the part of each call that is not the model."""
    turns = range(CALIBRATION_READS)
    started_ns = read()
    for _ in turns:
        pass
    return (read() - started_ns) / CALIBRATION_READS
