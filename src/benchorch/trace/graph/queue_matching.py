"""FIFO matching of waits that found ready what they requested.

The k-th item taken from a queue is the k-th that was put there. Where those waits of a thread
that did wait show what they waited for, and that is something another thread does as often and in
the same order, the others belong to those of its events that no thread was observed to wait for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.events import NOTHING
from benchorch.trace.graph.busy_intervals import BusyIntervals
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines
from benchorch.trace.graph.time_classes import waiting

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
