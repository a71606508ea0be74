"""Machines whose models run on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import ClassVar, final

from benchorch.domain.codec import Json
from benchorch.domain.measurement import Calibration
from benchorch.hardware.declared import DeclaredHardware
from benchorch.hardware.reading import calibrate_reads, own_preemptions
from benchorch.interfaces.hardware import Clock


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CpuHardware(DeclaredHardware):
    """A machine without an accelerator, or one whose accelerator is left alone."""

    device: ClassVar[str] = "cpu"

    def mismatch(self) -> str | None:
        """Why the machine this runs on is not of this kind, or None."""
        return self.wrong_machine()

    def facts(self) -> Mapping[str, Json]:
        """``arch``, ``cpu_model`` and ``cpu_isa`` of this host."""
        return self.cpu_facts()

    def clock(self) -> Clock:
        """The performance counter of this host."""
        return CpuClock()


@final
@dataclass(frozen=True, slots=True)
class CpuClock(Clock):
    """The performance counter; a call on the CPU is done when it returns."""

    def now_ns(self) -> int:
        """A monotonic time in nanoseconds."""
        return perf_counter_ns()

    def drain(self) -> None:
        """Nothing is ever outstanding."""

    def time_block(self, call: Callable[[], object], repeats: int) -> int:
        """Nanoseconds for `repeats` calls; nothing but them lies between the two reads."""
        turns = range(repeats)
        started_ns = perf_counter_ns()
        for _ in turns:
            call()
        return perf_counter_ns() - started_ns

    def preemptions(self) -> int:
        """Involuntary context switches of this thread; of the process where threads have none."""
        return own_preemptions()

    def calibrate(self) -> Calibration:
        """The median cost of two reads back to back, and the smallest step seen."""
        return calibrate_reads()
