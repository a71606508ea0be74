"""Profilers of a call's time, run once everything has been measured."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.runtime import Executable


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """An executable, and calls of it on different inputs; the first one was made once.

    Attributes:
        executable: the runtime's.
        calls: as they are measured.
        steps_per_call: how many calls of the executable each consists of.
    """

    executable: Executable
    calls: Sequence[Callable[[], object]]
    steps_per_call: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRequest:
    """Arguments of a profiler.

    Attributes:
        load: loads the artifact; with a directory, so that its runtime writes there what it knows
            of itself (`LoadRequest.profile_dir`).
        clock: of the host.
        device: ``cpu`` or ``cuda``.
        directory: where every file goes; exists.
    """

    load: Callable[[Path | None], Loaded]
    clock: Clock
    device: str
    directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedProfile:
    """Result of a profiler.

    Attributes:
        profiler: what recorded: ``torch``, ``onnxruntime``, ``nsys``.
        trace: the file to analyse.
        unprofiled_ns, profiled_ns: duration of each call without and under the profiler.
        notes: what the trace lacks, one sentence each.
    """

    profiler: str
    trace: Path
    unprofiled_ns: tuple[int, ...]
    profiled_ns: tuple[int, ...]
    notes: tuple[str, ...] = ()


class Profiler(ABC):
    """Runs in a process of its own after a trial was measured, and never beside a measurement.

    Class attributes:
        wanted: False for the member that stands for none.
        exit_s: how long its process may take to go once it has answered.
    """

    wanted: ClassVar[bool] = True
    exit_s: ClassVar[float] = 5.0

    @abstractmethod
    def unavailable(self, device: str) -> str | None:
        """Reason why it cannot record on this device here, or None; imports nothing heavy."""

    def under(self, directory: Path) -> tuple[str, ...]:
        """The program and options that the profiled process is started by; empty for none."""
        return ()

    def stretch(self, name: str) -> AbstractContextManager[object]:
        """Mark a phase of the process outside of calls: ``model``, ``inputs``."""
        return nullcontext()

    @abstractmethod
    def capture(self, request: CaptureRequest) -> CapturedProfile:
        """A few calls without it and a few under it; MeasureError where it cannot record."""
