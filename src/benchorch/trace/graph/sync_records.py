"""What did the profiler record beside the calls that synchronise host, streams and events?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.launches import join
from benchorch.trace.graph.scope_values import Scope


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What the profiler recorded beside synchronising calls, by the scope's index; else NOTHING.

    Attributes:
        stream: the stream a call is about.
        device: of that stream.
        record: the call that recorded the event that is waited for.
        recorded: the lane on which that event was recorded.
    """

    stream: NDArray[np.int64]
    device: NDArray[np.int64]
    record: NDArray[np.int64]
    recorded: NDArray[np.int64]


def notes(scope: Scope) -> Notes:
    """What is known of every call; columns of the scope's length."""
    calls = scope.indices(Category.RUNTIME)
    columns = {
        name: np.full(len(scope), NOTHING, dtype=np.int64)
        for name in ("stream", "device", "record", "recorded")
    }
    columns["stream"][calls] = scope.stream[calls]
    device = np.array([lane.device for lane in scope.events.lanes] or [NOTHING], dtype=np.int64)
    note = scope.indices(Category.SYNC)
    call = _calls(scope, calls, scope.correlation[note])
    note, call = note[call != NOTHING], call[call != NOTHING]
    columns["stream"][call] = scope.stream[note]
    columns["device"][call] = device[scope.lane[note]]
    columns["record"][call] = _calls(scope, calls, scope.awaited[note])
    mark = scope.indices(Category.RECORD)
    made = _calls(scope, calls, scope.correlation[mark])
    mark, made = mark[made != NOTHING], made[made != NOTHING]
    columns["recorded"][made] = lanes_of(scope, scope.stream[mark], device[scope.lane[mark]])
    told = (columns["record"][call] != NOTHING) & ~np.isin(columns["record"][call], made)
    note, record = note[told], columns["record"][call[told]]
    columns["recorded"][record] = lanes_of(scope, scope.stream[record], device[scope.lane[note]])
    return Notes(**columns)


def _calls(
    scope: Scope, calls: NDArray[np.int64], correlation: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The call with each correlation, or NOTHING."""
    at, _ = join(scope.correlation[calls], scope.start_ns[calls], correlation)
    if not len(calls):
        return at
    return np.where(at != NOTHING, calls[at], NOTHING)


def lanes_of(
    scope: Scope, stream: NDArray[np.int64], device: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The lane of each stream; where the device is not said, of the first device that has it."""
    known: dict[tuple[int, int], int] = {}
    for at, lane in enumerate(scope.events.lanes):
        if lane.on_device:
            known.setdefault((lane.device, lane.stream), at)
            known.setdefault((NOTHING, lane.stream), at)
    pairs = zip(device.tolist(), stream.tolist(), strict=True)
    lanes = [
        known.get((one, number), known.get((NOTHING, number), NOTHING)) if number >= 0 else NOTHING
        for one, number in pairs
    ]
    return np.array(lanes, dtype=np.int64)
