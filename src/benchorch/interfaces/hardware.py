"""The declared machine kind, and the clock of the machine actually used."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from benchorch.domain.codec import Json
from benchorch.domain.measurement import Calibration, DeviceMemory

KIND_VARIABLE = "BENCHORCH_HARDWARE_KIND"
"""Set on a node whose firmware does not name its kind."""


class Timing(NamedTuple):
    """Duration of one block, in nanoseconds.

    Attributes:
        wall: drained before the first read and before the last.
        issue: until the calls had returned; None where calls only return when they are done.
        device: between events of the device's own, or None where it has none.
        cpu: CPU time of all threads between the two reads; None where nobody tells.
    """

    wall: int
    issue: int | None = None
    device: int | None = None
    cpu: int | None = None


class TimedBlock(NamedTuple):
    """One of several blocks timed in a row.

    Attributes:
        started_ns: when it started.
        preemptions: the count of `Counts.preemptions` right after it.
    """

    started_ns: int
    timing: Timing
    preemptions: int


class Counts(NamedTuple):
    """Event counts of this process so far; only differences mean anything.

    Attributes:
        preemptions: involuntary context switches of the thread that issues the calls.
        collections: runs of the garbage collector.
        compilations: of graphs by torch, where it is loaded.
        allocator_retries: of the device's caching allocator.
    """

    preemptions: int = 0
    collections: int = 0
    compilations: int = 0
    allocator_retries: int = 0


class Clock(ABC):
    """Time on one host, and waiting for its device."""

    @abstractmethod
    def now_ns(self) -> int:
        """A monotonic time in nanoseconds."""

    @abstractmethod
    def drain(self) -> None:
        """Return when the device has finished everything issued so far."""

    @abstractmethod
    def wait_until(self, due_ns: int) -> None:
        """Return as soon after that time as can be; at once where it has passed."""

    @abstractmethod
    def time_block(
        self, call: Callable[[], object], repeats: int, *, at_once: bool = False
    ) -> Timing:
        """Time `repeats` calls, drained before the first read and before the last.

        Args:
            at_once: issue them all without waiting in between. Otherwise each call waits until
                the device has done the one before it, and a block of several tells neither
                `Timing.issue` nor `Timing.device`: the waits are part of both.
        """

    def time_blocks(
        self,
        calls: Sequence[Callable[[], object]],
        repeats: int,
        *,
        at_once: bool = False,
        for_ns: int = 0,
    ) -> list[TimedBlock]:
        """Time a block of each of the calls, in order, until so much time has gone by.

        Next to nothing runs between two of them, for it would take caches away from the second.

        Args:
            calls: at least one; the first one's block is always timed.
        """
        blocks: list[TimedBlock] = []
        until_ns = self.now_ns() + for_ns
        for call in calls:
            started_ns = self.now_ns()
            timing = self.time_block(call, repeats, at_once=at_once)
            blocks.append(TimedBlock(started_ns, timing, self.counts().preemptions))
            if not started_ns + timing.wall < until_ns:
                break
        return blocks

    @abstractmethod
    def counts(self) -> Counts:
        """Event counts of this process so far; never read inside a timed region."""

    @abstractmethod
    def flush_caches(self) -> None:
        """Fill every cache that a call could find its data in with something else."""

    @abstractmethod
    def calibrate(self) -> Calibration:
        """Cost of a read here."""


class Meter(ABC):
    """Counters of a machine besides time; read outside timed regions."""

    @abstractmethod
    def no_energy(self) -> str | None:
        """Reason why there is no energy counter, or None."""

    @property
    @abstractmethod
    def energy_source(self) -> str:
        """The counter's name, e.g. ``rapl package``; empty without one."""

    @abstractmethod
    def energy_j(self) -> float:
        """Joules since an origin of its own; never falls. Only where `no_energy` is None."""

    @abstractmethod
    def busy_s(self) -> float | None:
        """Seconds for which the device has been busy since an origin of its own, or None."""

    @abstractmethod
    def device_memory(self) -> DeviceMemory | None:
        """Peaks since `reset_device_memory`; None without a device."""

    @abstractmethod
    def reset_device_memory(self) -> None:
        """Start counting peaks anew."""

    @abstractmethod
    def device_state(self) -> Mapping[str, Json]:
        """Clocks, throttle reasons, temperature, power cap, other processes; empty without one."""


class Hardware(ABC):
    """A kind of machine.

    Class attributes:
        device: ``cpu`` or ``cuda``.
    """

    device: ClassVar[str]

    @property
    @abstractmethod
    def kind(self) -> str:
        """The name by which nodes of this kind are matched, e.g. ``g5.xlarge`` or ``local``."""

    @property
    @abstractmethod
    def conversions(self) -> tuple[str, ...]:
        """The conversions tried on it when none are named."""

    @property
    @abstractmethod
    def threads(self) -> int | None:
        """Threads per call; None means the node's physical cores."""

    @abstractmethod
    def mismatch(self) -> str | None:
        """Reason why this machine is not of this kind, or None."""

    def unusable(self) -> str | None:
        """Why no conversion can use what this machine is for, or None."""
        return None

    def cannot_simulate(self) -> str | None:
        """Reason why this machine cannot simulate one of this kind, or None."""
        return None

    @abstractmethod
    def facts(self) -> Mapping[str, Json]:
        """Facts of this host that formats may depend on: ``cpu_isa``, ``arch``, ..."""

    @abstractmethod
    def clock(self) -> Clock:
        """The clock of this host."""

    @abstractmethod
    def meter(self) -> Meter:
        """Counters of this host besides time."""
