"""Timelines of host threads: their points in order, and the segments between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.events import NOTHING
from benchorch.trace.graph.scope_values import Scope

_ELSEWHERE = -2  # owner of the step from one thread's last point to the next one's first


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTimelines:
    """The segments between neighbouring points of host threads; columns of shape ``(s,)``.

    Attributes:
        time_ns: (2n + 2,) of every point of the scope, then of the source and of the sink.
        walk: (p,) all points of host threads, lane by lane and in order.
        first: (lanes,) the place in the walk of each thread's first point.
        tail, head: points; heads are unique, and in the order of the walk.
        owner: the event in whose own time a segment lies, NOBODY between outermost events.
        lane, start_ns, end_ns: of each segment.
    """

    time_ns: NDArray[np.int64]
    walk: NDArray[np.int32]
    first: NDArray[np.int64]
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    owner: NDArray[np.int32]
    lane: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]

    @property
    def elapsed_ns(self) -> NDArray[np.int64]:
        """How long each segment took."""
        return self.end_ns - self.start_ns

    def segment_at(self, lane: NDArray[np.int32], at_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The last segment of each lane that began by then and has not ended before, or NOTHING."""
        if not len(self.lane) or not len(lane):
            return np.full(len(lane), NOTHING, dtype=np.int64)
        first_ns = self.start_ns.min()
        span_ns = int(self.end_ns.max() - first_ns) + 1
        key = self.lane * np.int64(span_ns) + (self.start_ns - first_ns)
        requested = lane * np.int64(span_ns) + np.clip(at_ns - first_ns, 0, span_ns - 1)
        at = np.searchsorted(key, requested, side="right") - 1
        inside = (at >= 0) & (self.lane[at] == lane)
        inside &= (self.start_ns[at] <= at_ns) & (self.end_ns[at] >= at_ns)
        return np.where(inside, at, NOTHING)


def thread_timelines(scope: Scope) -> ThreadTimelines:
    """The timelines of every host thread."""
    time_ns = np.empty(2 * len(scope) + 2, dtype=np.int64)
    time_ns[0:-2:2] = scope.start_ns
    time_ns[1:-2:2] = scope.end_ns
    time_ns[-2] = scope.window.start_ns
    on_lanes = slice(0, 2 * (scope.hosts + scope.works))
    time_ns[-1] = time_ns[on_lanes].max(initial=scope.window.start_ns)
    walk, owner = _walk(scope)
    if len(scope.overhead):
        walk, owner = _with_overhead(scope, walk, owner)
    within = owner[:-1] != _ELSEWHERE
    first = np.insert(~within, 0, True)[: len(walk)]
    tail, head = walk[:-1][within], walk[1:][within]
    return ThreadTimelines(
        time_ns=time_ns,
        walk=walk,
        first=np.flatnonzero(first),
        tail=tail,
        head=head,
        owner=owner[:-1][within],
        lane=scope.lane[head >> 1],
        start_ns=time_ns[tail],
        end_ns=time_ns[head],
    )


def _walk(scope: Scope) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """All points in the order of their threads, and the event that owns the time after each.

    When event i of the order starts, i have started before it and all but the events around it
    have ended: so the place of every point is known without walking.
    """
    if not scope.hosts:
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
    points = np.arange(0, 2 * scope.hosts, 2, dtype=np.int32)
    walk = np.empty(2 * scope.hosts, dtype=np.int32)
    walk[points - scope.depth] = points
    walk[2 * scope.after - scope.depth - 1] = points + np.int32(1)
    event, ends = walk >> 1, (walk & 1).astype(np.bool_)
    following = np.append(event[1:], np.int32(0))
    ends_twice = ends & np.append(ends[1:], False)
    owner = np.where(ends, np.where(ends_twice, following, scope.parent[event]), event)
    lane = scope.lane[event]
    owner[:-1][lane[1:] != lane[:-1]] = _ELSEWHERE
    return walk, owner


def _with_overhead(
    scope: Scope, walk: NDArray[np.int32], owner: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The same with the profiler's own time taken out of whatever it falls into."""
    these = scope.overhead
    first_ns, last_ns = int(scope.start_ns.min()), int(scope.end_ns.max())
    rank = np.zeros(len(scope.events.lanes), dtype=np.int64)
    rank[scope.lane[walk >> 1]] = np.cumsum(np.insert(owner[:-1] == _ELSEWHERE, 0, 0))
    lane_ns = rank * (last_ns - first_ns + 1) - first_ns
    times_ns = np.where(walk & 1, scope.end_ns[walk >> 1], scope.start_ns[walk >> 1])
    times_ns += lane_ns[scope.lane[walk >> 1]]
    shift_ns = lane_ns[scope.lane[these]]
    begins = np.searchsorted(times_ns, scope.start_ns[these] + shift_ns, side="right")
    finishes = np.searchsorted(times_ns, scope.end_ns[these] + shift_ns, side="left")
    at = np.stack([begins, finishes], axis=1).ravel()
    walk = np.insert(walk, at, np.stack([2 * these, 2 * these + 1], axis=1).ravel())
    owner = np.insert(owner, at, owner[at - 1])
    begun = np.cumsum(np.isin(walk, 2 * these))
    running = begun > np.cumsum(np.isin(walk, 2 * these + 1))
    return walk, np.where(running & (owner != _ELSEWHERE), these[begun - 1], owner)
