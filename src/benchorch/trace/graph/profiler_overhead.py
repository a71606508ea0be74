"""Attribution of the profiler's own time to threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.scope_values import Scope


def with_overhead(scope: Scope) -> Scope:
    """The scope with the profiler's intervals on the threads they name, cut to those threads.

    Files give the profiler a process of its own; the thread's number attributes its time. Cut
    they do not overlap; what no thread can be found for is left out.
    """
    these = scope.indices(Category.OVERHEAD)
    if not len(these) or not scope.hosts:
        return scope
    lane = _threads(scope)[scope.lane[these]]
    order = np.lexsort((scope.start_ns[these], lane))
    these, lane = these[order], lane[order].astype(np.int32)
    first_ns, last_ns = _extents(scope)
    start_ns = np.maximum(scope.start_ns[these], first_ns[lane])
    end_ns = np.minimum(scope.end_ns[these], last_ns[lane])
    start_ns = np.maximum(start_ns, _latest_before(lane, end_ns))
    kept = (lane != NOTHING) & (start_ns < end_ns)
    these = these[kept]
    lanes, starts, ends = scope.lane.copy(), scope.start_ns.copy(), scope.end_ns.copy()
    lanes[these], starts[these], ends[these] = lane[kept], start_ns[kept], end_ns[kept]
    return replace(scope, lane=lanes, start_ns=starts, end_ns=ends, overhead=these)


def _threads(scope: Scope) -> NDArray[np.int64]:
    """For every lane the lane that takes part and has the same thread, or NOTHING."""
    taking_part = np.flatnonzero(np.bincount(scope.lane[scope.host])).tolist()
    by_thread = {scope.events.lanes[at].thread: at for at in reversed(taking_part)}
    own = {at: at for at in taking_part}
    return np.array(
        [
            own.get(at, by_thread.get(lane.thread, NOTHING))
            for at, lane in enumerate(scope.events.lanes)
        ],
        dtype=np.int64,
    )


def _extents(scope: Scope) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When each thread's first event starts and its last one ends."""
    lane, start_ns, end_ns = (
        column[scope.host] for column in (scope.lane, scope.start_ns, scope.end_ns)
    )
    first = np.full(len(scope.events.lanes), np.iinfo(np.int64).max)
    last = np.full(len(scope.events.lanes), np.iinfo(np.int64).min)
    np.minimum.at(first, lane, start_ns)
    np.maximum.at(last, lane, end_ns)
    return first, last


def _latest_before(lane: NDArray[np.int64], end_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """For intervals by lane and start, when the last one before each on its lane ends."""
    least = np.iinfo(np.int64).min
    latest = np.full(len(lane), least)
    for one in np.unique(lane):
        on = np.flatnonzero(lane == one)
        latest[on[1:]] = np.maximum.accumulate(end_ns[on])[:-1]
    return latest
