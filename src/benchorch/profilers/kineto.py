"""A trace by PyTorch's own profiler, with ranges for modules, waits and kernels."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchorch.errors import MeasureError
from benchorch.frameworks.torch_call import TorchExecutable
from benchorch.interfaces.profiler import CapturedProfile, CaptureRequest, Loaded
from benchorch.interfaces.runtime import Executable
from benchorch.profilers import kineto_tables, ranges
from benchorch.profilers.schedule import Scheduled

if TYPE_CHECKING:
    import torch
    from torch.profiler import profile

TRACE = "trace.json.gz"
STACKS = "trace_with_stacks.json.gz"
_GZIP_LEVEL = 5  # higher ones take many times as long for a few percent

# What the installed torch may lack, and what its trace is missing then.
_EXPERIMENTAL: Mapping[str, str] = {
    "profile_all_threads": "this torch records operators of the calling thread alone",
    "enable_cuda_sync_events": "this torch does not record what streams wait for",
}


_NAMELESS: Mapping[str, str] = {"aot inductor": "AOTInductor's library"}
"""Names for compiled code without kernel names, by provider."""


def sees(executable: object) -> bool:
    """Whether the calls of an executable run through torch at all."""
    if not isinstance(executable, TorchExecutable):
        return False
    from benchorch.frameworks.opaque_module import OpaqueModule

    return not isinstance(executable.module, OpaqueModule)


def capture(
    schedule: Scheduled, request: CaptureRequest, loaded: Loaded, *, stacks: bool = False
) -> CapturedProfile:
    """Calls without the profiler, then under it; the trace and its tables in the directory.

    Args:
        schedule: how many of each.
        request: as for `Profiler.capture`.
        loaded: what is called.
        stacks: repeat it with Python's stack of every operator, in a trace of its own: finding
            them takes time that the first trace must not show.
    """
    executable = loaded.executable
    if not isinstance(executable, TorchExecutable):
        raise _blind(executable, remedy="profiler=auto")
    library = _NAMELESS.get(executable.provider)
    after = schedule.wait // 2  # half before and half after: a machine's speed drifts
    with executable.calling():
        unprofiled_ns = schedule.make(schedule.wait - after, loaded.calls, request.clock)
        with _ranges(executable):
            config, notes = _experimental(request.device)
            trace = _profiler(request.device, experimental_config=config)
            profiled_ns = _record(trace, schedule, loaded, request, library)
        unprofiled_ns += schedule.make(after, loaded.calls, request.clock)
        _export(trace, request.directory / TRACE)
        # Of all threads at once torch does not tell who took memory, so this is another pass.
        with ranges.compiled_kernels():
            tables = _profiler(request.device, profile_memory=True)
            _record(tables, schedule, loaded, request, library)
        if not kineto_tables.write(tables, request.directory):
            raise _blind(executable)
        if stacks:
            with _ranges(executable):
                again = _profiler(request.device, with_stack=True, experimental_config=config)
                _record(again, schedule, loaded, request, library)
            _export(again, request.directory / STACKS)
    executable.close()
    return CapturedProfile(
        profiler="torch",
        trace=request.directory / TRACE,
        unprofiled_ns=unprofiled_ns,
        profiled_ns=profiled_ns,
        notes=(*notes, *_blind_spots(library)),
    )


def _blind(executable: Executable, remedy: str = "") -> MeasureError:
    provider = executable.settings().get("provider")
    return MeasureError(
        f"{provider} does not run through torch, so torch's profiler sees nothing of it.",
        kind="no_profiler",
        remedy=remedy,
    )


@contextlib.contextmanager
def _ranges(executable: TorchExecutable) -> Iterator[None]:
    with ranges.modules(executable.module), ranges.waits(), ranges.compiled_kernels():
        yield


def _profiler(device: str, **options: Any) -> profile:
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    return profile(activities=activities, record_shapes=True, **options)


def _experimental(device: str) -> tuple[torch._C._profiler._ExperimentalConfig, tuple[str, ...]]:
    """Experimental settings that this torch has, and notes on those it lacks."""
    from torch._C._profiler import _ExperimentalConfig

    options = [name for name in _EXPERIMENTAL if device == "cuda" or "cuda" not in name]
    known: dict[str, Any] = {}
    for name in options:
        with contextlib.suppress(TypeError):
            _ExperimentalConfig(**{name: True})  # type: ignore[arg-type]
            known[name] = True
    lost = tuple(_EXPERIMENTAL[name] for name in options if name not in known)
    return _ExperimentalConfig(**known), lost


def _record(
    profiler: profile,
    schedule: Scheduled,
    loaded: Loaded,
    request: CaptureRequest,
    library: str | None,
) -> tuple[int, ...]:
    """Duration of each call under the profiler; warm-up calls are not in the trace."""
    profiler.prepare_trace()
    schedule.make(schedule.warmup, loaded.calls, request.clock)
    profiler.start_trace()
    try:
        return schedule.make(
            schedule.active, loaded.calls, request.clock, lambda _: _called(library)
        )
    finally:
        profiler.stop_trace()


@contextlib.contextmanager
def _called(library: str | None) -> Iterator[None]:
    """Range of one call; unnamed kernels are attributed to the library."""
    with (
        ranges.marked(ranges.CALL),
        ranges.marked(library) if library else contextlib.nullcontext(),
    ):
        yield


def _export(profiler: profile, path: Path) -> None:
    """Write the trace compressed, with our own ranges as annotations."""
    plain = path.with_suffix("")
    try:
        profiler.export_chrome_trace(str(plain))
        text = ranges.as_annotations(plain.read_bytes())
        path.write_bytes(gzip.compress(text, _GZIP_LEVEL))
    finally:
        plain.unlink(missing_ok=True)


def _blind_spots(library: str | None) -> tuple[str, ...]:
    if library is None:
        return ()
    return (
        f"the kernels of {library} are not distinguished: it was built without their names, and "
        "another build would be another library",
    )
