"""Edges of waits that a program records, in ranges called ``wait:<what>``.

The main thread waits for results: for the end of another thread's busy interval, else of its
outermost range or operator, else of any. Other threads wait for something to do: for whatever the
main thread had just done, if it was not idle itself, else as the main thread does. What ended
shortly before is preferred to what ended earlier. What ended before the wait began was not waited
for; `queue_matching` finds what would have been.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import CLASSES, Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING
from benchorch.trace.graph.edge_list import Found, edges, found
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.thread_timelines import BusyIntervals, ThreadTimelines
from benchorch.trace.graph.time_classes import waiting
from benchorch.trace.lookup import EventIndex, event_index

# The k-th item taken from a queue is the k-th that was put there. Where those waits of a thread
# that did wait show what they waited for, and that is something another thread does as often and in
# the same order, the others belong to those of its events that no thread was observed to wait for.
_NUMBER = re.compile(r"\d+")


def match_fifo(
    scope: Scope,
    timelines: ThreadTimelines,
    range_: NDArray[np.int64],
    tail: NDArray[np.int64],
    busy: BusyIntervals,
) -> NDArray[np.int64]:
    """The point that each wait would have waited for, where it is clear; else NOTHING.

    Args:
        range_: (w,) ranges that wait, each thread's in order.
        tail: (w,) what they waited for, NOTHING where they did not.
    """
    found = np.full(len(range_), NOTHING, dtype=np.int64)
    if not (tail == NOTHING).any() or (tail == NOTHING).all():
        return found
    produced = _produced(scope, timelines, tail)
    key = scope.lane[range_] * np.int64(len(scope.events.names)) + scope.name[range_]
    for one in np.unique(key[tail != NOTHING]):
        these = np.flatnonzero(key == one)
        known = np.flatnonzero(tail[these] != NOTHING)
        if len(known) == len(these):
            continue
        for alike in _alike(scope, timelines.time_ns, produced[these[known]], busy):
            match = _in_order(known, produced[these[known]], len(these), alike)
            if match is None or (timelines.time_ns[match] > scope.end_ns[range_[these]]).any():
                continue
            found[these] = np.where(tail[these] == NOTHING, match, NOTHING)
            break
    return found


def _produced(
    scope: Scope, timelines: ThreadTimelines, tail: NDArray[np.int64]
) -> NDArray[np.int64]:
    """What was done last at each of some points: where something begins, what ended before it."""
    before = np.full(2 * len(scope) + 1, NOTHING, dtype=np.int64)
    before[timelines.head] = timelines.tail
    working = np.ones(len(scope), dtype=np.bool_)
    working[waiting(scope)] = False
    earlier = before[tail]
    ended = (tail != NOTHING) & (tail & 1 == 0) & (earlier & 1 == 1) & working[earlier >> 1]
    return np.where(ended & (earlier != NOTHING), earlier, tail)


def _alike(
    scope: Scope, time_ns: NDArray[np.int64], points: NDArray[np.int64], busy: BusyIntervals
) -> Iterator[NDArray[np.int64]]:
    """All points of one thread like some: ends of busy intervals, or of what is called alike."""
    lanes = np.unique(scope.lane[points >> 1])
    if len(lanes) > 1 or len(np.unique(points & 1)) > 1:
        return
    if np.isin(points, busy.end).all():
        yield busy.end[busy.lane == lanes[0]]
    names = [_NUMBER.sub("*", name) for name in scope.events.names]
    called = {names[name] for name in scope.name[points >> 1].tolist()}
    if len(called) == 1:
        same = np.array([name in called for name in names])
        event = np.flatnonzero(same[scope.name] & (scope.lane == lanes[0]))
        point = 2 * event + (points[0] & 1)
        yield point[np.argsort(time_ns[point], kind="stable")]


def _in_order(
    known: NDArray[np.int64], points: NDArray[np.int64], waits: int, alike: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """For so many waits the point that each is matched with; None where the known ones disagree.

    One known match alone is enough only if there are as many points as waits.
    """
    place: dict[int, int] = {point: at for at, point in enumerate(alike.tolist())}
    places: Sequence[int] = [place.get(point, NOTHING) for point in points.tolist()]
    shift = places[0] - int(known[0])
    agreed = all(at - int(k) == shift for at, k in zip(places, known.tolist(), strict=True))
    certain = len(known) > 1 or (len(alike) == waits and shift == 0)
    if NOTHING in places or not agreed or not certain:
        return None
    if shift < 0 or shift + waits > len(alike):
        return None
    return alike[shift + np.arange(waits)]


def recorded_waits(
    scope: Scope, timelines: ThreadTimelines, label: NDArray[np.int8], busy: BusyIntervals
) -> Found:
    """From what was waited for to the wait's end; inferred where it could be one of several.

    Between the two the thread woke up, which takes its time whoever is waited for; what is longer
    than that takes stays unexplained.

    A long wait for nothing in the trace is labelled so: its length is known, its cause is outside.
    Waiting for data that no thread of the trace loads is loading it: another process does. A short
    wait for nothing in the trace found ready what it requested: that is the cost of requesting it.
    """
    segment = np.flatnonzero(busy.wait)
    if not len(segment):
        return found()
    range_ = timelines.owner[segment].astype(np.int64)
    end_ns = scope.end_ns[range_]
    tail = _targets(scope, timelines, range_, busy)
    match = match_fifo(scope, timelines, range_, tail, busy)
    known, ready = tail != NOTHING, match != NOTHING
    loading = label[range_] == CLASSES.index(Class.DATA_LOADING)
    short = end_ns - scope.start_ns[range_] <= scope.thresholds.idle_ns
    # What is waited for is none of the trace's: another process, a thread that is not recorded.
    label[range_[~(known | loading | short)]] = CLASSES.index(Class.OUTSIDE)
    waited = known
    head = timelines.head[segment]
    woke_ns = end_ns - timelines.time_ns[tail]
    woke_ns = np.where(known & (woke_ns <= scope.thresholds.wake_ns), woke_ns, 0)
    tier = np.where(_rivals(scope, range_, tail, busy), Tier.INFERRED, Tier.RECORDED)
    return found(
        edges(
            tail[known],
            head[known],
            EdgeKind.WAIT,
            Class.SYNC_EXIT,
            tier=tier.astype(np.int8)[known],
            weight_ns=woke_ns[known],
            owner=range_[known],
        ),
        edges(
            match[ready],
            head[ready],
            EdgeKind.WAIT,
            Class.SYNC_EXIT,
            tier=Tier.INFERRED,
            owner=range_[ready],
        ),
        waits=head[waited],
        floor_ns=np.minimum(woke_ns, timelines.elapsed_ns[segment])[waited],
    )


def _targets(
    scope: Scope, timelines: ThreadTimelines, range_: NDArray[np.int64], busy: BusyIntervals
) -> NDArray[np.int64]:
    """The point that each range waited for, or NOTHING."""
    ranks = scope.events.ranks
    working = np.ones(scope.hosts, dtype=np.bool_)
    working[waiting(scope)] = False
    event = np.flatnonzero(working)
    on_main = event[scope.lane[event] == scope.main_lane]

    def index(points: NDArray[np.int64]) -> EventIndex:
        return event_index(ranks, points, scope.lane[points >> 1], timelines.time_ns[points])

    lane, start_ns, end_ns = scope.lane[range_], scope.start_ns[range_], scope.end_ns[range_]
    woken_ns = end_ns - scope.thresholds.woken_ns
    at = timelines.segment_at(np.full(len(range_), scope.main_lane), woken_ns)
    at_work = (lane != scope.main_lane) & (at != NOTHING) & ~busy.idle[at]
    done = index(np.concatenate([2 * on_main, 2 * on_main + 1]))
    done_last = done.last_elsewhere(lane, woken_ns, start_ns)
    tail = np.where(at_work, done_last, NOTHING)
    candidates = (
        (index(busy.end), end_ns),
        (index(2 * event[scope.depth[event] == 0] + 1), end_ns),
        (index(2 * event + 1), woken_ns),
    )
    soon_ns = np.maximum(start_ns, end_ns - scope.thresholds.wake_ns - 1)
    for after_ns in (soon_ns, start_ns):
        for ends, until_ns in candidates:
            last = ends.last_elsewhere(lane, until_ns, after_ns)
            tail = np.where(tail == NOTHING, last, tail)
    return tail


def _rivals(
    scope: Scope, range_: NDArray[np.int64], tail: NDArray[np.int64], busy: BusyIntervals
) -> NDArray[np.bool_]:
    """Where a third thread's busy interval ended shortly before, too, or went on: it may be it."""
    lane, until_ns = scope.lane[range_], scope.end_ns[range_]
    chosen = scope.lane[tail >> 1]
    ranks = scope.events.ranks
    rivals = np.zeros(len(tail), dtype=np.bool_)
    for other in np.unique(busy.lane):
        on = busy.lane == other
        at = np.searchsorted(busy.start_ns[on], until_ns) - 1
        worked = (at >= 0) & (busy.end_ns[on][at] > until_ns - scope.thresholds.wake_ns)
        rivals |= worked & (lane != other) & (chosen != other) & (ranks[lane] == ranks[other])
    return rivals
