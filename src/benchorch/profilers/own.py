"""A trace that the runtime writes itself, cut down to the calls that count."""

import gzip
import json
from collections.abc import Mapping, Sequence

from benchorch.domain.codec import Json
from benchorch.errors import MeasureError
from benchorch.files import read_json
from benchorch.interfaces.profiler import CapturedProfile, CaptureRequest, Loaded
from benchorch.profilers.schedule import Scheduled

TRACE = "trace.json.gz"
_CALL = "model_run"

Event = Mapping[str, Json]


def capture(schedule: Scheduled, request: CaptureRequest, loaded: Loaded) -> CapturedProfile:
    """Calls of an executable that records itself, then of another one as it is measured."""
    profiled_ns = _profiled(schedule, request, loaded)
    written = loaded.executable.own_profile()
    provider = str(loaded.executable.settings().get("provider", "this runtime"))
    loaded.executable.close()
    if written is None:
        raise MeasureError(
            f"{provider} keeps no profile of its own, and does not run through torch.",
            kind="no_profiler",
        )
    trace = request.directory / TRACE
    events = last_calls(read_json(written), len(profiled_ns))
    trace.write_bytes(gzip.compress(json.dumps(events).encode()))
    written.unlink()
    return CapturedProfile(
        profiler="onnxruntime",
        trace=trace,
        unprofiled_ns=_unprofiled(schedule, request),
        profiled_ns=profiled_ns,
    )


def last_calls(events: Sequence[Event], count: int) -> list[Event]:
    """Events of the last `count` calls, and those of loading the session."""
    starts = sorted(_time(each) for each in events if each.get("name") == _CALL)
    if len(starts) <= count:
        return list(events)
    first, from_then = starts[0], starts[-count]
    return [each for each in events if not first <= _time(each) < from_then]


def _time(event: Event) -> float:
    """Microseconds since the session was made; those that lie in no call have any."""
    stamp = event.get("ts")
    return float(stamp) if isinstance(stamp, int | float) else -1.0


def _profiled(schedule: Scheduled, request: CaptureRequest, loaded: Loaded) -> tuple[int, ...]:
    with loaded.executable.calling():
        schedule.make(schedule.warmup, loaded.calls, request.clock)
        return schedule.make(schedule.active, loaded.calls, request.clock)


def _unprofiled(schedule: Scheduled, request: CaptureRequest) -> tuple[int, ...]:
    loaded = request.load(None)
    with loaded.executable.calling():
        taken_ns = schedule.make(schedule.wait, loaded.calls, request.clock)
    loaded.executable.close()
    return taken_ns
