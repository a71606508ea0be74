"""A trace that the runtime writes itself, cut down to the calls that count."""

import gzip
import json
from collections.abc import Mapping, Sequence

from benchorch.domain.codec import Json
from benchorch.errors import MeasureError
from benchorch.files import read_json
from benchorch.interfaces.profiler import CapturedProfile, CaptureRequest, Loaded
from benchorch.profilers.ranges import CALL
from benchorch.profilers.schedule import Scheduled

TRACE = "trace.json.gz"
_RUN = "model_run"

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
    events = last_calls(read_json(written), len(profiled_ns), loaded.steps_per_call)
    trace.write_bytes(gzip.compress(json.dumps(events).encode()))
    written.unlink()
    return CapturedProfile(
        profiler="onnxruntime",
        trace=trace,
        unprofiled_ns=_unprofiled(schedule, request),
        profiled_ns=profiled_ns,
    )


def last_calls(events: Sequence[Event], count: int, steps: int = 1) -> list[Event]:
    """Events of the last `count` calls, and those of loading the session.

    Args:
        events: of all calls since the session was made.
        count: of the calls to keep.
        steps: runs of the session in a call; each call of several is marked, or the runs would pass
            for the steps of the trace.
    """
    runs = sorted((each for each in events if each.get("name") == _RUN), key=_time)
    kept, rest = runs[-count * steps :], list(events)
    if len(runs) > len(kept):
        first, from_then = _time(runs[0]), _time(kept[0])
        rest = [each for each in events if not first <= _time(each) < from_then]
    if steps == 1:
        return rest
    return rest + [_marked(kept[at : at + steps]) for at in range(0, len(kept), steps)]


def _marked(runs: Sequence[Event]) -> Event:
    """A range around the runs of a call, on their thread."""
    took_us = _time(runs[-1]) + _number(runs[-1], "dur") - _time(runs[0])
    return {**runs[0], "cat": "user_annotation", "name": CALL, "dur": took_us, "args": {}}


def _time(event: Event) -> float:
    """Microseconds since the session was made; those that lie in no call have any."""
    return _number(event, "ts")


def _number(event: Event, key: str) -> float:
    found = event.get(key)
    return float(found) if isinstance(found, int | float) else -1.0


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
