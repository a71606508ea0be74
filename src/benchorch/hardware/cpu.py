"""Machines whose models run on the CPU."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import sub
from time import perf_counter_ns, process_time_ns
from typing import final

from benchorch.domain.codec import Json
from benchorch.domain.measurement import Calibration
from benchorch.hardware.caches import flush_host_caches
from benchorch.hardware.declared import DeclaredHardware
from benchorch.hardware.host_meter import HostMeter
from benchorch.hardware.reading import calibrate_reads, own_counts, own_preemptions, spin_until
from benchorch.interfaces.hardware import Clock, Counts, Meter, TimedBlock, Timing


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CpuHardware(DeclaredHardware):
    """A machine without an accelerator, or one whose accelerator no conversion compiles for."""

    device = "cpu"

    def unusable(self) -> str | None:
        """Whose accelerator would idle while its CPU is measured at the accelerator's price."""
        if self.accelerator is None:
            return None
        return (
            f"no conversion compiles for {self.accelerator} (AWS Neuron); models would run on the "
            f"CPU of {self.kind} at the accelerator's price."
        )

    def mismatch(self) -> str | None:
        """Reason why this machine is not of this kind, or None."""
        return self.wrong_machine()

    def facts(self) -> Mapping[str, Json]:
        """``arch``, ``cpu_model`` and ``cpu_isa`` of this host."""
        return self.cpu_facts()

    def clock(self) -> Clock:
        """The performance counter of this host."""
        return CpuClock()

    def meter(self) -> Meter:
        """Counters of this host besides time."""
        return HostMeter()


@final
@dataclass(frozen=True, slots=True)
class CpuClock(Clock):
    """The performance counter; a call on the CPU is done when it returns."""

    def now_ns(self) -> int:
        """A monotonic time in nanoseconds."""
        return perf_counter_ns()

    def drain(self) -> None:
        """No operation: CPU calls leave nothing outstanding."""

    def wait_until(self, due_ns: int) -> None:
        """Return as soon after that time as can be; at once where it has passed."""
        spin_until(due_ns)

    def time_block(
        self, call: Callable[[], object], repeats: int, *, at_once: bool = False
    ) -> Timing:
        """Time `repeats` calls, with nothing else between the two clock reads."""
        turns = range(repeats)
        cpu_before_ns = process_time_ns()
        started_ns = perf_counter_ns()
        for _ in turns:
            call()
        wall_ns = perf_counter_ns() - started_ns
        return Timing(wall_ns, cpu=process_time_ns() - cpu_before_ns)

    def time_blocks(
        self,
        calls: Sequence[Callable[[], object]],
        repeats: int,
        *,
        at_once: bool = False,
        for_ns: int = 0,
    ) -> list[TimedBlock]:
        """Time several blocks in a row as `time_block` does; readings are combined afterwards."""
        turns = range(repeats)
        switches, cpu_ns, times_ns = [], [], []
        until_ns = perf_counter_ns() + for_ns
        for call in calls:
            cpu_ns.append(process_time_ns())
            started_ns = perf_counter_ns()
            for _ in turns:
                call()
            ended_ns = perf_counter_ns()
            cpu_ns.append(process_time_ns())
            switches.append(own_preemptions())
            times_ns.append((started_ns, ended_ns))
            if ended_ns >= until_ns:
                break
        cpu = map(sub, cpu_ns[1::2], cpu_ns[::2])
        return [
            TimedBlock(started, Timing(ended - started, cpu=used), switched)
            for (started, ended), used, switched in zip(times_ns, cpu, switches, strict=True)
        ]

    def counts(self) -> Counts:
        """Event counts of this process so far."""
        return own_counts()

    def flush_caches(self) -> None:
        """Replace what the shared cache and this core's own ones hold."""
        flush_host_caches()

    def calibrate(self) -> Calibration:
        """The median cost of two reads back to back, and the smallest step seen."""
        return calibrate_reads()
