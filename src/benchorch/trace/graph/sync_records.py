"""CUDA synchronisation records: what the profiler recorded beside synchronising host calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.launches import calls_with
from benchorch.trace.graph.scope_values import Scope


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRecords:
    """What is recorded of host calls; columns by the scope's index, NOTHING where unknown.

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


def sync_records(scope: Scope) -> SyncRecords:
    """The records of every call of a scope."""
    calls = scope.indices(Category.RUNTIME)
    stream, device, record, recorded = (
        np.full(len(scope), NOTHING, dtype=np.int64) for _ in range(4)
    )
    on_device = scope.events.devices[scope.lane]

    def calls_of(correlation: NDArray[np.int64]) -> NDArray[np.int64]:
        return calls_with(correlation, calls, scope.correlation, scope.start_ns)[0]

    stream[calls] = scope.stream[calls]
    sync = scope.indices(Category.SYNC)
    call = calls_of(scope.correlation[sync])
    sync, call = sync[call != NOTHING], call[call != NOTHING]
    stream[call] = scope.stream[sync]
    device[call] = on_device[sync]
    record[call] = calls_of(scope.awaited[sync])
    mark = scope.indices(Category.RECORD)
    made = calls_of(scope.correlation[mark])
    mark, made = mark[made != NOTHING], made[made != NOTHING]
    recorded[made] = lanes_of(scope, scope.stream[mark], on_device[mark])
    named = (record[call] != NOTHING) & ~np.isin(record[call], made)
    sync, records = sync[named], record[call[named]]
    recorded[records] = lanes_of(scope, scope.stream[records], on_device[sync])
    return SyncRecords(stream=stream, device=device, record=record, recorded=recorded)


def lanes_of(
    scope: Scope, stream: NDArray[np.int64], device: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The lane of each stream; where the device is unknown, of the first device that has it."""
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
