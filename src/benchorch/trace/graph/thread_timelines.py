"""In which order does a host thread pass the starts and ends of its events, and in whose time?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.graph.scope_values import Scope

_ELSEWHERE = -2  # owner of the step from one thread's last point to the next one's first


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTimelines:
    """The stretches between neighbouring points of host threads; columns of shape ``(s,)``.

    Attributes:
        walk: (p,) all points, lane by lane and in order.
        tail, head: points; heads are unique, and in the order of the walk.
        owner: the event in whose own time it lies, NOBODY between outermost events.
        first: (lanes,) the place in the walk of each thread's first point.
    """

    walk: NDArray[np.int32]
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    owner: NDArray[np.int32]
    first: NDArray[np.int64]


def chains(scope: Scope) -> ThreadTimelines:
    """The stretches of every host thread."""
    walk, owner = _walk(scope)
    if len(scope.overhead):
        walk, owner = _with_overhead(scope, walk, owner)
    within = owner[:-1] != _ELSEWHERE
    first = np.insert(~within, 0, True)[: len(walk)]
    return ThreadTimelines(
        walk=walk,
        tail=walk[:-1][within],
        head=walk[1:][within],
        owner=owner[:-1][within],
        first=np.flatnonzero(first),
    )


def _walk(scope: Scope) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """All points in the order of their threads, and whose time comes after each.

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
