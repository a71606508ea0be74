"""When did a thread work, and when was it idle?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import NOBODY
from benchorch.trace.graph.point_lookup import SegmentIndex
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines
from benchorch.trace.graph.thresholds import Thresholds
from benchorch.trace.graph.time_classes import waiting


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BusyIntervals:
    """The stretches of work of every thread, lane by lane and in order; b bursts, s stretches.

    Attributes:
        start, end: (b,) points.
        lane: (b,).
        gap: (s,) whether a stretch of the chains lies between events, or in one around others.
        idle: (s,) whether the thread did nothing in it: a long gap, or the last of a wait.
        wait: (s,) whether it is the last of a range that says it waits.
        before: (b,) the stretch before each, NOBODY for a thread's first burst.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    lane: NDArray[np.int32]
    gap: NDArray[np.bool_]
    idle: NDArray[np.bool_]
    wait: NDArray[np.bool_]
    before: NDArray[np.int64]


def bursts(
    scope: Scope, chains: ThreadTimelines, table: SegmentIndex, thresholds: Thresholds
) -> BusyIntervals:
    """Bursts end where a thread idles: at the top level, in a container, or in a wait."""
    owner = chains.owner
    waits = np.zeros(len(scope) + 1, dtype=np.bool_)  # the last one is NOBODY's
    waits[waiting(scope)] = True
    container = np.zeros(len(scope) + 1, dtype=np.bool_)
    container[: scope.hosts] = scope.after > np.arange(1, scope.hosts + 1)
    container[NOBODY] = True
    wait = waits[owner] & (chains.head == 2 * owner + 1)
    gap = container[owner] & ~waits[owner]
    elapsed_ns = table.elapsed_ns
    long = gap & (elapsed_ns > thresholds.idle_ns)
    for lane, idle_ns in _idle_ns(table.lane, elapsed_ns, gap, thresholds):
        long[lane] &= elapsed_ns[lane] > idle_ns
    idle = wait | long
    return _between(scope, chains, gap=gap, idle=idle, wait=wait)


def _idle_ns(
    lane: NDArray[np.int32],
    elapsed_ns: NDArray[np.int64],
    gap: NDArray[np.bool_],
    thresholds: Thresholds,
) -> Iterator[tuple[slice, int]]:
    """The stretches of each lane where pauses are longer than usual, and what is no pause there.

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


def _between(
    scope: Scope,
    chains: ThreadTimelines,
    *,
    gap: NDArray[np.bool_],
    idle: NDArray[np.bool_],
    wait: NDArray[np.bool_],
) -> BusyIntervals:
    """What lies between idle stretches; a single point between two of them is none.

    A thread's first one is, for there it was started even if it pauses then, unless it waits.
    Where a wait begins, the burst ended with the point before: there may have been nothing after.
    """
    walk = chains.walk
    begins = np.zeros(len(walk), dtype=np.bool_)
    begins[chains.first] = True
    stretch = np.full(len(walk), NOBODY, dtype=np.int64)  # that ends at each point of the walk
    stretch[~begins] = np.arange(len(idle))
    after_idle = begins.copy()
    after_idle[~begins] = idle
    first = np.flatnonzero(after_idle)
    last = np.append(first[1:], len(walk))[: len(first)] - 1
    waits = np.zeros(len(scope), dtype=np.bool_)
    waits[waiting(scope)] = True
    begins_wait = (walk[last] & 1 == 0) & waits[walk[last] >> 1]
    some = (first < last) | (begins[first] & ~begins_wait)
    first, last, begins_wait = first[some], last[some], begins_wait[some]
    last = np.where(begins_wait, np.maximum(last - 1, first), last)
    return BusyIntervals(
        start=walk[first].astype(np.int64),
        end=walk[last].astype(np.int64),
        lane=scope.lane[walk[first] >> 1],
        gap=gap,
        idle=idle,
        wait=wait,
        before=stretch[first],
    )
