"""NVIDIA's Nsight Systems around the whole process, where it is installed."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

from benchorch.interfaces.profiler import CapturedProfile, CaptureRequest
from benchorch.profilers.schedule import Scheduled

REPORT = "nsys"
TRACE = f"{REPORT}.sqlite"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Nsys(Scheduled):
    """Activity of host and GPU from the driver, with our NVTX ranges.

    Ranges: ``model`` and ``inputs`` while loading, ``iteration 0`` ... around each call and the
    wait for it, ``forward`` around the call alone.

    Args:
        program: Nsight Systems' command.
        trace: what it records.
        range: ``calls`` records the active calls alone, ``everything`` the process from its start.
    """

    exit_s = 300.0  # it writes and converts its report after the process

    program: str = "nsys"
    trace: Sequence[str] = ("cuda", "nvtx", "osrt", "cudnn", "cublas")
    range: Literal["calls", "everything"] = "calls"

    def unavailable(self, device: str) -> str | None:
        """Unavailable without a GPU or without the program."""
        if device != "cuda":
            return f"Nsight Systems records GPUs, and this hardware's device is {device!r}"
        if shutil.which(self.program) is None:
            return f"{self.program} is not on PATH: install NVIDIA Nsight Systems"
        return None

    def under(self, directory: Path) -> tuple[str, ...]:
        """``nsys profile`` with its options; the report is converted to SQLite at the end."""
        within = ("--capture-range=cudaProfilerApi", "--capture-range-end=stop")
        return (
            *(self.program, "profile", "-w", "true", "-t", ",".join(self.trace), "-s", "none"),
            *("-o", str(directory / REPORT), "-f", "true", "-x", "true", "--export=sqlite"),
            *(within if self.range == "calls" else ()),
        )

    def stretch(self, name: str) -> AbstractContextManager[object]:
        """An NVTX range, recorded where the whole process is."""
        return _nvtx(name)

    def capture(self, request: CaptureRequest) -> CapturedProfile:
        """Calls outside of the recorded range, then inside it."""
        loaded = request.load(None)
        with loaded.executable.calling():
            unprofiled_ns = self.make(self.wait, loaded.calls, request.clock)
            calls = [_forward(call) for call in loaded.calls]
            self.make(self.warmup, calls, request.clock)
            with _recorded():
                profiled_ns = self.make(
                    self.active, calls, request.clock, lambda i: _nvtx(f"iteration {i}")
                )
        loaded.executable.close()
        return CapturedProfile(
            profiler="nsys",
            trace=request.directory / TRACE,
            unprofiled_ns=unprofiled_ns,
            profiled_ns=profiled_ns,
        )


def _forward(call: Callable[[], object]) -> Callable[[], object]:
    def forward() -> object:
        with _nvtx("forward"):
            return call()

    return forward


@contextmanager
def _nvtx(name: str) -> Iterator[None]:
    from torch.cuda import nvtx

    nvtx.range_push(name)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        nvtx.range_pop()  # type: ignore[no-untyped-call]


@contextmanager
def _recorded() -> Iterator[None]:
    """The range that ``--capture-range=cudaProfilerApi`` records."""
    import torch

    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
