"""What every clock of a host shares: the cost of a read, and who interrupted."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable
from time import perf_counter_ns, process_time_ns, sleep

from benchorch.domain.measurement import Calibration
from benchorch.errors import MeasureError
from benchorch.interfaces.hardware import Counts
from benchorch.units import ns_to_s

CALIBRATION_READS = 10_000
# Sleep is late by tens of microseconds; the rest of the wait is spent reading the clock.
SPIN_NS = 250_000


def own_preemptions() -> int:
    """How often the calling thread was switched out against its will, so far."""
    who = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
    return resource.getrusage(who).ru_nivcsw


def own_counts() -> Counts:
    """What has happened to this process so far, as far as the host knows."""
    return Counts(preemptions=own_preemptions(), cpu_ns=process_time_ns())


def spin_until(due_ns: int) -> None:
    """Return as soon after a time of the performance counter as can be."""
    ahead_ns = due_ns - perf_counter_ns()
    if ahead_ns > SPIN_NS:
        sleep(ns_to_s(ahead_ns - SPIN_NS))
    while perf_counter_ns() < due_ns:
        pass


def calibrate_reads(read: Callable[[], int] = perf_counter_ns) -> Calibration:
    """What reading a clock costs; MeasureError where it stands still or steps back."""
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
    """What one turn of an empty loop costs: the part of each call that is not the model."""
    turns = range(CALIBRATION_READS)
    started_ns = read()
    for _ in turns:
        pass
    return (read() - started_ns) / CALIBRATION_READS
