"""Machines whose models run on an NVIDIA GPU."""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import ClassVar, final

from benchorch.domain.codec import Json
from benchorch.domain.measurement import Calibration
from benchorch.errors import MeasureError
from benchorch.hardware import host
from benchorch.hardware.declared import DeclaredHardware
from benchorch.hardware.host_meter import HostMeter
from benchorch.hardware.reading import calibrate_reads, own_counts, spin_until
from benchorch.interfaces.hardware import Clock, Counts, Meter, Timing

_DEVICE_FILES = (Path("/dev/nvidiactl"), Path("/dev/nvidia0"), Path("/dev/dxg"))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CudaHardware(DeclaredHardware):
    """A machine with at least one CUDA device, of which the first one is used.

    Attributes:
        accelerator: the GPU's name for people, e.g. ``A10G``, or None where any will do.
    """

    device: ClassVar[str] = "cuda"

    accelerator: str | None = None

    def mismatch(self) -> str | None:
        """Why the machine this runs on is not of this kind, or None; imports nothing heavy."""
        return self.wrong_machine() or _no_device()

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
        """What this host and its device count about themselves besides time."""
        return HostMeter()


@final
@dataclass(frozen=True, slots=True)
class CudaClock(Clock):
    """The host's counter around work that is waited for: what the caller sees."""

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

        With more than one call the figure is pipelined: the device may overlap them.
        """
        from torch.cuda import synchronize

        turns = range(repeats)
        synchronize()
        started_ns = perf_counter_ns()
        for _ in turns:
            call()
        synchronize()
        return Timing(perf_counter_ns() - started_ns)

    def counts(self) -> Counts:
        """What has happened to this process so far."""
        return own_counts()

    def flush_caches(self) -> None:
        """Write a buffer larger than the device's second-level cache."""
        raise NotImplementedError

    def calibrate(self) -> Calibration:
        """What a read of the host's counter costs; waiting for the device is part of the call."""
        return calibrate_reads()


def _no_device() -> str | None:
    """Why no CUDA device can be used here, as far as a look from outside tells."""
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
