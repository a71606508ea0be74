"""Events that a trace tells in two records, their begin and their end, as complete ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchorch.trace.readers.records import Record
from benchorch.trace.readers.values import nanoseconds
from benchorch.units import NS_PER_US

Half = tuple[int, Record]


def paired(
    halves: Sequence[Half], last_ns: int, repairs: Counter[str]
) -> tuple[list[Record], NDArray[np.int64]]:
    """Complete records and the places of their begins.

    On each thread an end closes the last begin that is still open, in order of time. A begin
    without an end lasts to `last_ns` or the last half; an end without a begin is dropped. Both
    are counted.
    """
    times, known = nanoseconds([record.ts for _, record in halves])
    order = np.lexsort((np.arange(len(halves)), times))
    open_by_thread: dict[Hashable, list[int]] = {}
    ends: dict[int, int] = {}
    for at in order[known[order]].tolist():
        record = halves[at][1]
        waiting = open_by_thread.setdefault((record.pid, record.tid), [])
        if record.ph == "B":
            waiting.append(at)
        elif waiting:
            ends[waiting.pop()] = int(times[at])
        else:
            repairs["end without a begin"] += 1
    last_ns = max([last_ns, *times.tolist()])
    for at in (at for waiting in open_by_thread.values() for at in waiting):
        ends[at] = last_ns
        repairs["begin without an end"] += 1
    begins = sorted(ends, key=lambda at: halves[at][0])
    rows = [_complete(halves[at][1], ends[at] - int(times[at])) for at in begins]
    return rows, np.array([halves[at][0] for at in begins], dtype=np.int64)


def _complete(record: Record, duration_ns: int) -> Record:
    return msgspec.structs.replace(record, ph="X", dur=duration_ns / NS_PER_US)
