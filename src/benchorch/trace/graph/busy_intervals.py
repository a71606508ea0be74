"""Busy and idle intervals of host threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import NOBODY
from benchorch.trace.events import Category
from benchorch.trace.graph.scope_values import Scope, Thresholds
from benchorch.trace.graph.thread_timelines import ThreadTimelines
from benchorch.trace.graph.time_classes import waiting


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BusyIntervals:
    """The busy intervals of every thread, lane by lane and in order; b intervals, s segments.

    Attributes:
        start, end: (b,) points.
        lane: (b,).
        start_ns, end_ns: (b,).
        is_first: (b,) whether it is its thread's first one.
        idle: (s,) whether the thread was idle in a segment: a long gap, or the last of a wait.
        wait: (s,) whether it is the last segment of a range that says it waits.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    lane: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    is_first: NDArray[np.bool_]
    idle: NDArray[np.bool_]
    wait: NDArray[np.bool_]


def busy_intervals(scope: Scope, timelines: ThreadTimelines) -> BusyIntervals:
    """Busy intervals end where a thread idles: at the top level, in a container, or in a wait."""
    owner = timelines.owner
    waits = np.zeros(len(scope) + 1, dtype=np.bool_)  # the last one is NOBODY's
    waits[waiting(scope)] = True
    container = np.zeros(len(scope) + 1, dtype=np.bool_)
    container[: scope.hosts] = scope.after > np.arange(1, scope.hosts + 1)
    # What an operator does between its calls is its own work.
    container[scope.indices(Category.OPERATOR, Category.NODE, Category.RUNTIME)] = False
    container[NOBODY] = True
    wait = waits[owner] & (timelines.head == 2 * owner + 1)
    gap = container[owner] & ~waits[owner]
    elapsed_ns = timelines.elapsed_ns
    long = gap & (elapsed_ns > scope.thresholds.idle_ns)
    for lane, idle_ns in _usual_pauses(timelines.lane, elapsed_ns, gap, scope.thresholds):
        long[lane] &= elapsed_ns[lane] > idle_ns
    return _between_idle(scope, timelines, idle=wait | long, wait=wait, waits=waits)


def _usual_pauses(
    lane: NDArray[np.int32],
    elapsed_ns: NDArray[np.int64],
    gap: NDArray[np.bool_],
    thresholds: Thresholds,
) -> Iterator[tuple[slice, int]]:
    """The segments of each lane where pauses are longer than usual, and what is no pause there.

    The usual pause is the median of those that may be pauses at all: a thread that waits more
    often than it pauses has long gaps only.
    """
    begins = np.append(np.flatnonzero(np.diff(lane, prepend=-1)), len(lane))
    for first, last in pairwise(begins.tolist()):
        pauses = elapsed_ns[first:last][gap[first:last]]
        pauses = pauses[pauses <= thresholds.idle_ns]
        shortest_ns = thresholds.idle_ns / thresholds.idle_gaps_ratio
        if 2 * int((pauses > shortest_ns).sum()) >= len(pauses) > 0:  # else the median is shorter
            yield slice(first, last), int(thresholds.idle_gaps_ratio * float(np.median(pauses)))


def _between_idle(
    scope: Scope,
    timelines: ThreadTimelines,
    *,
    idle: NDArray[np.bool_],
    wait: NDArray[np.bool_],
    waits: NDArray[np.bool_],
) -> BusyIntervals:
    """The intervals between idle segments; a single point between two of them is none.

    A thread's first one is, for there it was started even if it pauses then, unless it waits.
    Where a wait begins, the interval ended with the point before: there may have been nothing
    after.
    """
    walk = timelines.walk
    begins = np.zeros(len(walk), dtype=np.bool_)
    begins[timelines.first] = True
    after_idle = begins.copy()
    after_idle[~begins] = idle
    first = np.flatnonzero(after_idle)
    last = np.append(first[1:], len(walk))[: len(first)] - 1
    begins_wait = (walk[last] & 1 == 0) & waits[walk[last] >> 1]
    some = (first < last) | (begins[first] & ~begins_wait)
    first, last, begins_wait = first[some], last[some], begins_wait[some]
    last = np.where(begins_wait, np.maximum(last - 1, first), last)
    start, end = walk[first].astype(np.int64), walk[last].astype(np.int64)
    return BusyIntervals(
        start=start,
        end=end,
        lane=scope.lane[start >> 1],
        start_ns=timelines.time_ns[start],
        end_ns=timelines.time_ns[end],
        is_first=begins[first],
        idle=idle,
        wait=wait,
    )
