"""Timelines of host threads: their points in order, the segments between them, what is idle."""

from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from benchorch.trace.arrays import Bools, Int32s, Int64s, mask
from benchorch.trace.dag import NOBODY
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.scope import Scope
from benchorch.trace.graph.time_classes import waiting
from benchorch.trace.lookup import by_lane

_ELSEWHERE = -2  # owner of the step from one thread's last point to the next one's first


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTimelines:
    """The segments between neighbouring points of host threads; columns of shape ``(s,)``."""

    time_ns: Int64s  # (2n + 2,) of every point of the scope, then of the source and of the sink
    walk: Int32s  # (p,) all points of host threads, lane by lane and in order
    first: Int64s  # (lanes,) the place in the walk of each thread's first point
    tail: Int32s  # and head: points; heads are unique, and in the order of the walk
    head: Int32s
    owner: Int32s  # the event in whose own time a segment lies, NOBODY between outermost events
    lane: Int32s  # and start_ns, end_ns: of each segment
    start_ns: Int64s
    end_ns: Int64s

    @property
    def elapsed_ns(self) -> Int64s:
        """How long each segment took."""
        return self.end_ns - self.start_ns

    def without_segments(self) -> "ThreadTimelines":
        """Points alone: what is left to do needs no segments, which take most memory."""
        none, no_time = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
        less = replace(self, start_ns=no_time, end_ns=no_time)
        return replace(less, tail=none, head=none, owner=none, lane=none)

    def segment_at(self, lane: Int32s, at_ns: Int64s) -> Int64s:
        """The last segment of each lane that began by then and has not ended before, or NOTHING."""
        at = by_lane(self.lane, self.start_ns, lane, at_ns, "right") - 1
        if not len(self.lane):
            return at
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


def _walk(scope: Scope) -> tuple[Int32s, Int32s]:
    """All points in the order of their threads, and the event that owns the time after each.

    When event i starts, i have started before it, and all but those around it have ended.
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


def _with_overhead(scope: Scope, walk: Int32s, owner: Int32s) -> tuple[Int32s, Int32s]:
    """The same with the profiler's own time taken out of whatever it falls into."""
    these = scope.overhead
    lane = scope.lane[walk >> 1]
    times_ns = np.where(walk & 1, scope.end_ns[walk >> 1], scope.start_ns[walk >> 1])
    begins = by_lane(lane, times_ns, scope.lane[these], scope.start_ns[these], "right")
    finishes = by_lane(lane, times_ns, scope.lane[these], scope.end_ns[these])
    at = np.stack([begins, finishes], axis=1).ravel()
    walk = np.insert(walk, at, np.stack([2 * these, 2 * these + 1], axis=1).ravel())
    owner = np.insert(owner, at, owner[at - 1])
    begun = np.cumsum(np.isin(walk, 2 * these))
    running = begun > np.cumsum(np.isin(walk, 2 * these + 1))
    return walk, np.where(running & (owner != _ELSEWHERE), these[begun - 1], owner)


class BusyIntervals(NamedTuple):
    """The busy intervals of every thread, lane by lane and in order; b intervals, s segments."""

    start: Int64s  # and end: (b,) points
    end: Int64s
    lane: Int32s  # (b,)
    start_ns: Int64s  # and end_ns: (b,)
    end_ns: Int64s
    is_first: Bools  # (b,) whether it is its thread's first one
    idle: Bools  # (s,) whether the thread was idle in a segment: a long gap, or the last of a wait
    wait: Bools  # (s,) whether it is the last segment of a range that says it waits


def busy_intervals(scope: Scope, timelines: ThreadTimelines) -> BusyIntervals:
    """Busy intervals end where a thread idles: at the top level, in a container, or in a wait."""
    owner = timelines.owner
    waits = mask(len(scope) + 1, waiting(scope))  # the last one is NOBODY's
    container = np.zeros(len(scope) + 1, dtype=np.bool_)
    container[: scope.hosts] = scope.after > np.arange(1, scope.hosts + 1)
    # What an operator does between its calls is its own work.
    container[scope.indices(Category.OPERATOR, Category.NODE, Category.RUNTIME)] = False
    container[NOBODY] = True
    wait = waits[owner] & (timelines.head == 2 * owner + 1)
    long = container[owner] & ~waits[owner] & (timelines.elapsed_ns > scope.thresholds.idle_ns)
    return _between_idle(scope, timelines, idle=wait | long, wait=wait, waits=waits)


def _between_idle(
    scope: Scope, timelines: ThreadTimelines, *, idle: Bools, wait: Bools, waits: Bools
) -> BusyIntervals:
    """The intervals between idle segments; a single point between two of them is none.

    A thread's first one is, unless it waits. One ends with the point before a wait begins.
    """
    walk = timelines.walk
    begins = mask(len(walk), timelines.first)
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
