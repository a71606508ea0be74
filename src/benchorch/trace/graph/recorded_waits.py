"""What did a thread wait for when it says that it waits, in a range called ``wait:<what>``?

The main thread waits for results: for the end of another thread's burst, else of its outermost
range or operator, else of any. Other threads wait for something to do: for whatever the main
thread had just done, if it was not idle itself, else as the main thread does. What ended shortly
before is preferred to what ended earlier. What ended before the wait began was not waited for;
`turns` knows what would have been.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import CLASSES, Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING
from benchorch.trace.graph.busy_intervals import BusyIntervals
from benchorch.trace.graph.edge_list import Found, edges, found
from benchorch.trace.graph.point_lookup import EventIndex, SegmentIndex, moments
from benchorch.trace.graph.queue_matching import match_fifo
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines
from benchorch.trace.graph.thresholds import Thresholds
from benchorch.trace.graph.time_classes import waiting


def waits(
    scope: Scope,
    chains: ThreadTimelines,
    time_ns: NDArray[np.int64],
    label: NDArray[np.int8],
    burst: BusyIntervals,
    table: SegmentIndex,
    thresholds: Thresholds,
) -> Found:
    """From what was waited for to the wait's end; inferred where it could be one of several.

    Between the two the thread woke up, which takes its time whoever is waited for; what is longer
    than that takes stays unexplained.

    Waiting for data that no thread of the trace loads is loading it: another process does. A short
    wait for nothing that can be seen found ready what it asked for: that is the cost of asking.
    """
    stretch = np.flatnonzero(burst.wait)
    if not len(stretch):
        return found()
    range_ = chains.owner[stretch].astype(np.int64)
    asked = _Asked(
        range_=range_,
        lane=scope.lane[range_],
        start_ns=scope.start_ns[range_],
        end_ns=scope.end_ns[range_],
    )
    tail = _targets(scope, time_ns, asked, burst, table, thresholds)
    turn = match_fifo(scope, chains, time_ns, range_, tail, burst)
    known, ready = tail != NOTHING, turn != NOTHING
    alone = ~_rivals(scope, time_ns, asked, tail, burst, thresholds)
    loading = label[asked.range_] == CLASSES.index(Class.DATA_LOADING)
    short = asked.end_ns - asked.start_ns <= thresholds.idle_ns
    head = chains.head[stretch]
    woke_ns = asked.end_ns - time_ns[tail]
    woke_ns = np.where(known & (woke_ns <= thresholds.wake_ns), woke_ns, 0)
    return found(
        edges(
            tail[known],
            head[known],
            kind=EdgeKind.WAIT,
            tier=np.where(alone, Tier.RECORDED, Tier.INFERRED).astype(np.int8)[known],
            weight_ns=woke_ns[known],
            label=Class.SYNC_EXIT,
            owner=asked.range_[known],
        ),
        edges(
            turn[ready],
            head[ready],
            kind=EdgeKind.WAIT,
            tier=Tier.INFERRED,
            label=Class.SYNC_EXIT,
            owner=asked.range_[ready],
        ),
        waits=head[known | ~(loading | short)],
        floor_ns=np.minimum(woke_ns, time_ns[head] - time_ns[chains.tail[stretch]])[
            known | ~(loading | short)
        ],
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The ranges that wait; columns of shape ``(w,)``."""

    range_: NDArray[np.int64]
    lane: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


def _targets(
    scope: Scope,
    time_ns: NDArray[np.int64],
    asked: _Asked,
    burst: BusyIntervals,
    table: SegmentIndex,
    thresholds: Thresholds,
) -> NDArray[np.int64]:
    """The point that each range waited for, or NOTHING."""
    ended, outermost, inner, main = _candidates(scope, time_ns, burst)
    worker = asked.lane != scope.main_lane
    woken_ns = asked.end_ns - thresholds.woken_ns
    at = table.stretch_at(np.full(len(woken_ns), scope.main_lane), woken_ns)
    at_work = worker & (at != NOTHING) & ~burst.idle[at]
    tail = np.full(len(worker), NOTHING, dtype=np.int64)
    tail = _better(tail, main, asked, asked.start_ns, woken_ns, at_work)
    soon_ns = np.maximum(asked.start_ns, asked.end_ns - thresholds.wake_ns - 1)
    for after_ns in (soon_ns, asked.start_ns):
        tail = _better(tail, ended, asked, after_ns, asked.end_ns)
        tail = _better(tail, outermost, asked, after_ns, asked.end_ns)
        tail = _better(tail, inner, asked, after_ns, woken_ns)
    return tail


def _better(
    tail: NDArray[np.int64],
    known: EventIndex,
    asked: _Asked,
    after_ns: NDArray[np.int64],
    until_ns: NDArray[np.int64],
    where: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """The last of some moments between two times, where there is no target yet."""
    if not len(known.point):
        return tail
    at = known.last_elsewhere(asked.lane, until_ns)
    fits = (tail == NOTHING) & (at >= 0) & (known.time_ns[at] > after_ns)
    return np.where(fits if where is None else fits & where, known.point[at], tail)


def _candidates(
    scope: Scope, time_ns: NDArray[np.int64], burst: BusyIntervals
) -> tuple[EventIndex, EventIndex, EventIndex, EventIndex]:
    """Ends of bursts, of outermost events, of all; and all points of the main thread; no waits."""
    working = np.ones(scope.hosts, dtype=np.bool_)
    working[waiting(scope)] = False
    event = np.flatnonzero(working)
    outermost = event[scope.depth[event] == 0]
    main = event[scope.lane[event] == scope.main_lane]

    def of(points: NDArray[np.int64]) -> EventIndex:
        return moments(points, scope.lane[points >> 1], time_ns[points])

    return (
        of(burst.end),
        of(2 * outermost + 1),
        of(2 * event + 1),
        of(np.concatenate([2 * main, 2 * main + 1])),
    )


def _rivals(
    scope: Scope,
    time_ns: NDArray[np.int64],
    asked: _Asked,
    tail: NDArray[np.int64],
    burst: BusyIntervals,
    thresholds: Thresholds,
) -> NDArray[np.bool_]:
    """Whether a burst of a third thread ended shortly before, too, or went on: it may be it."""
    until_ns, after_ns = asked.end_ns, asked.end_ns - thresholds.wake_ns
    chosen = scope.lane[tail >> 1]
    rivals = np.zeros(len(tail), dtype=np.bool_)
    for lane in np.unique(burst.lane):
        on = burst.lane == lane
        starts_ns, ends_ns = time_ns[burst.start[on]], time_ns[burst.end[on]]
        at = np.searchsorted(starts_ns, until_ns) - 1
        worked = (at >= 0) & (ends_ns[at] > after_ns)
        rivals |= worked & (asked.lane != lane) & (chosen != lane)
    return rivals
