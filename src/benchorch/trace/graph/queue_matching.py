"""Whom would a thread have waited for, had it not found ready what it asked for?

The k-th item taken from a queue is the k-th that was put there. Where those waits of a thread
that did wait show what they waited for, and that is something another thread does as often and in
the same order, the others belong to those of its deeds that nobody was seen to wait for.
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
    chains: ThreadTimelines,
    time_ns: NDArray[np.int64],
    range_: NDArray[np.int64],
    tail: NDArray[np.int64],
    burst: BusyIntervals,
) -> NDArray[np.int64]:
    """The point that each wait would have waited for, where it is clear; else NOTHING.

    Args:
        range_: (w,) ranges that wait, each thread's in order.
        tail: (w,) what they waited for, NOTHING where they did not.
    """
    found = np.full(len(range_), NOTHING, dtype=np.int64)
    if not (tail == NOTHING).any() or (tail == NOTHING).all():
        return found
    deed = _deeds(scope, chains, tail)
    key = scope.lane[range_] * np.int64(len(scope.events.names)) + scope.name[range_]
    for one in np.unique(key[tail != NOTHING]):
        asked = np.flatnonzero(key == one)
        known = np.flatnonzero(tail[asked] != NOTHING)
        if len(known) == len(asked):
            continue
        for done in _alike(scope, time_ns, deed[asked[known]], burst):
            turn = _turns(known, deed[asked[known]], len(asked), done)
            if turn is None or (time_ns[turn] > scope.end_ns[range_[asked]]).any():
                continue
            found[asked] = np.where(tail[asked] == NOTHING, turn, NOTHING)
            break
    return found


def _deeds(scope: Scope, chains: ThreadTimelines, tail: NDArray[np.int64]) -> NDArray[np.int64]:
    """What was done last at each of some points: where something begins, what ended before it."""
    before = np.full(2 * len(scope) + 1, NOTHING, dtype=np.int64)
    before[chains.head] = chains.tail
    working = np.ones(len(scope), dtype=np.bool_)
    working[waiting(scope)] = False
    earlier = before[tail]
    ended = (tail != NOTHING) & (tail & 1 == 0) & (earlier & 1 == 1) & working[earlier >> 1]
    return np.where(ended & (earlier != NOTHING), earlier, tail)


def _alike(
    scope: Scope, time_ns: NDArray[np.int64], deed: NDArray[np.int64], burst: BusyIntervals
) -> Iterator[NDArray[np.int64]]:
    """All points of one thread that are like some: ends of bursts, or of what is called alike."""
    lanes = np.unique(scope.lane[deed >> 1])
    if len(lanes) > 1 or len(np.unique(deed & 1)) > 1:
        return
    if np.isin(deed, burst.end).all():
        yield burst.end[burst.lane == lanes[0]]
    called = {_folded(scope, event) for event in (deed >> 1).tolist()}
    if len(called) == 1:
        names = scope.events.names
        same = [_NUMBER.sub("*", name) in called for name in names]
        event = np.flatnonzero(np.array(same)[scope.name] & (scope.lane == lanes[0]))
        point = 2 * event + (deed[0] & 1)
        yield point[np.argsort(time_ns[point], kind="stable")]


def _folded(scope: Scope, event: int) -> str:
    return _NUMBER.sub("*", scope.events.names[int(scope.name[event])])


def _turns(
    known: NDArray[np.int64], deed: NDArray[np.int64], asked: int, done: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Of so many waits the deed that each takes its turn at; None where the known ones disagree.

    One wait alone tells what its turn is only if there are as many deeds as waits.
    """
    place: dict[int, int] = {point: at for at, point in enumerate(done.tolist())}
    places: Sequence[int] = [place.get(point, NOTHING) for point in deed.tolist()]
    shift = places[0] - int(known[0])
    agreed = all(at - int(k) == shift for at, k in zip(places, known.tolist(), strict=True))
    certain = len(known) > 1 or (len(done) == asked and shift == 0)
    if NOTHING in places or not agreed or not certain:
        return None
    if shift < 0 or shift + asked > len(done):
        return None
    return done[shift + np.arange(asked)]
