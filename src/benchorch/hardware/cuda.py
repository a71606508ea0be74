"""Machines whose models run on an NVIDIA GPU."""

from __future__ import annotations

import importlib.metadata
import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns, process_time_ns
from typing import TYPE_CHECKING, final

from benchorch.domain.codec import Json
from benchorch.domain.measurement import Calibration
from benchorch.errors import MeasureError
from benchorch.hardware import host
from benchorch.hardware.caches import FLUSH_FACTOR
from benchorch.hardware.declared import DeclaredHardware
from benchorch.hardware.nvidia_meter import NvidiaMeter, first_device
from benchorch.hardware.reading import calibrate_reads, own_counts, spin_until
from benchorch.interfaces.hardware import Clock, Counts, Meter, Timing
from benchorch.units import ms_to_ns

if TYPE_CHECKING:
    import torch

# Reading the allocator's statistics costs tens of microseconds.
RETRIES_EVERY_NS = 1_000_000
_DEVICE_FILES = (Path("/dev/nvidiactl"), Path("/dev/nvidia0"), Path("/dev/dxg"))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CudaHardware(DeclaredHardware):
    """A machine with at least one CUDA device, of which the first one is used."""

    device = "cuda"

    def mismatch(self) -> str | None:
        """Reason why this machine is not of this kind, or None; imports nothing heavy."""
        return self.wrong_machine() or _no_device()

    def cannot_simulate(self) -> str | None:
        """Another architecture, or that there is no CUDA device; imports nothing heavy."""
        return DeclaredHardware.cannot_simulate(self) or _no_device()

    def facts(self) -> Mapping[str, Json]:
        """The processor's facts, the GPU's name and its ``compute_capability``."""
        import torch

        _demand_device()
        major, minor = torch.cuda.get_device_capability()
        return {
            **self.cpu_facts(),
            "gpu": torch.cuda.get_device_name(),
            "compute_capability": f"{major}.{minor}",
        }

    def clock(self) -> Clock:
        """The performance counter, read when the GPU is idle."""
        _demand_device()
        return CudaClock()

    def meter(self) -> Meter:
        """Counters of this host and its device besides time."""
        return NvidiaMeter(driver=first_device())


@final
class CudaClock(Clock):
    """The host's counter around work that is waited for, and the device's own beside it."""

    def __init__(self) -> None:
        """Events and buffers are made when they are first needed, and kept."""
        self._events: tuple[torch.cuda.Event, torch.cuda.Event] | None = None
        self._wiped: torch.Tensor | None = None
        self._retries = 0
        self._retries_read_ns = -RETRIES_EVERY_NS

    def now_ns(self) -> int:
        """A monotonic time in nanoseconds, whatever the device is doing."""
        return perf_counter_ns()

    def drain(self) -> None:
        """Return when every stream of the device is idle."""
        from torch.cuda import synchronize

        synchronize()

    def wait_until(self, due_ns: int) -> None:
        """Return as soon after that time as can be; at once where it has passed."""
        spin_until(due_ns)

    def time_block(
        self, call: Callable[[], object], repeats: int, *, at_once: bool = False
    ) -> Timing:
        """Time `repeats` calls, drained before the first read and before the last.

        The device's time is that between two events on the current stream, so it holds the gaps
        in which the device waits for the host, and says nothing of work on other streams. The
        first event is recorded before the first read and costs the calls nothing; the second is
        recorded when they have been issued, while the device still works on them.
        """
        if repeats > 1 and not at_once:
            return _one_by_one(call, repeats)
        return self._with_events(call, repeats)

    def _with_events(self, call: Callable[[], object], repeats: int) -> Timing:
        from torch.cuda import synchronize

        if self._events is None:
            self._events = _timed_event(), _timed_event()
        first, last = self._events
        turns = range(repeats)
        synchronize()
        cpu_before_ns = process_time_ns()
        first.record()
        started_ns = perf_counter_ns()
        for _ in turns:
            call()
        issued_ns = perf_counter_ns()
        last.record()
        synchronize()
        ended_ns = perf_counter_ns()
        return Timing(
            ended_ns - started_ns,
            issue=issued_ns - started_ns,
            device=_between_ns(first, last),
            cpu=process_time_ns() - cpu_before_ns,
        )

    def counts(self) -> Counts:
        """Event counts so far; the allocator's are refreshed at most once a millisecond."""
        now_ns = perf_counter_ns()
        if now_ns - self._retries_read_ns >= RETRIES_EVERY_NS:
            self._retries, self._retries_read_ns = _allocator_retries(), now_ns
        return own_counts(allocator_retries=self._retries)

    def flush_caches(self) -> None:
        """Fill a buffer twice the size of the device's second-level cache, on the same stream."""
        if self._wiped is None:
            import torch

            size = FLUSH_FACTOR * torch.cuda.get_device_properties().L2_cache_size
            self._wiped = torch.empty(size, dtype=torch.uint8, device="cuda")
        self._wiped.zero_()

    def calibrate(self) -> Calibration:
        """Cost of reading the host's counter; waiting for the device is part of the call."""
        return calibrate_reads()


def _one_by_one(call: Callable[[], object], repeats: int) -> Timing:
    """Calls that each wait for the one before: too short for events, which resolve half a µs."""
    from torch.cuda import synchronize

    turns = range(repeats)
    synchronize()
    cpu_before_ns = process_time_ns()
    started_ns = perf_counter_ns()
    for _ in turns:
        call()
        synchronize()
    wall_ns = perf_counter_ns() - started_ns
    return Timing(wall_ns, cpu=process_time_ns() - cpu_before_ns)


def _timed_event() -> torch.cuda.Event:
    from torch.cuda import Event

    return Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _between_ns(first: torch.cuda.Event, last: torch.cuda.Event) -> int:
    """Device time between two events, which the device reports in milliseconds."""
    elapsed_ms = first.elapsed_time(last)
    if not 0 <= elapsed_ms < math.inf:
        raise MeasureError(
            f"The device's events contradict themselves: {elapsed_ms} ms from first to last.",
            kind="instrument_fault",
            remedy="run it again; if it repeats, this device's events cannot be trusted",
        )
    return ms_to_ns(elapsed_ms)


def _allocator_retries() -> int:
    """How often the caching allocator went to the driver: for more memory, or after failing."""
    from torch.cuda import memory_stats_as_nested_dict

    stats = memory_stats_as_nested_dict()
    segments = stats.get("segment", {}).get("all", {})
    return int(stats.get("num_alloc_retries", 0) + segments.get("allocated", 0))


def _no_device() -> str | None:
    """Reason why no CUDA device can be used here, found without torch."""
    if host.hides_gpus():
        return "a CUDA device is needed; CUDA_VISIBLE_DEVICES hides all of them."
    if not any(path.exists() for path in _DEVICE_FILES) and not shutil.which("nvidia-smi"):
        return "a CUDA device is needed; this machine has no NVIDIA driver."
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "a CUDA device is reached through torch, which is not installed."
    if version.endswith("+cpu"):
        return f"a CUDA device is needed; torch {version} is built without CUDA."
    return None


def _demand_device() -> None:
    """MeasureError where torch itself sees no device."""
    import torch

    if not torch.cuda.is_available():
        raise MeasureError(
            f"torch {torch.__version__} sees no CUDA device.",
            kind="wrong_node",
            remedy="hardware=local, or a torch built for this machine's driver",
        )
