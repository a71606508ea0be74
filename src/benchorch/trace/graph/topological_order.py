"""Topological order of points, those of the same nanosecond included.

By time; of the same time first ends of device work, then points of host threads, then starts of
device work, for what ended may have let others go on. Threads keep their own order. Where a
dependency between points of the same time contradicts that, it decides.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.graph.edge_list import Edges
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines

# Ranks among points of the same time; what takes no time stands between ends and starts.
_DEVICE_END, _HOST_END, _HOST_INSTANT, _HOST_START, _DEVICE_INSTANT, _DEVICE_START = range(6)
_RANKS = 8


def topological_order(
    scope: Scope, timelines: ThreadTimelines, parts: Sequence[Edges]
) -> NDArray[np.int32]:
    """All points that take part in topological order, source first and sink last."""
    time_ns = timelines.time_ns
    works = np.arange(2 * scope.hosts, 2 * (scope.hosts + scope.works), dtype=np.int32)
    points = np.concatenate([timelines.walk, works])
    key = time_ns[points]
    ranks = np.concatenate([_host_ranks(timelines, key), _device_ranks(scope)])
    key -= scope.window.start_ns
    key *= _RANKS
    key += ranks
    ends = np.array([2 * len(scope), 2 * len(scope) + 1], dtype=np.int32)
    points = np.concatenate([ends[:1], points[np.argsort(key, kind="stable")], ends[1:]])
    return _settled(points, time_ns, parts)


def positions(points: NDArray[np.int32], size: int) -> NDArray[np.int32]:
    """The place of every point in an order, -1 of those that do not take part."""
    place = np.full(size, -1, dtype=np.int32)
    place[points] = np.arange(len(points), dtype=np.int32)
    return place


def _host_ranks(timelines: ThreadTimelines, passed_ns: NDArray[np.int64]) -> NDArray[np.int8]:
    """Ranks of the walk's points; along a thread and within one time they never fall."""
    walk, time_ns = timelines.walk, timelines.time_ns
    rank = np.where(walk & 1, np.int8(_HOST_END), np.int8(_HOST_START))
    stays = np.zeros(len(walk), dtype=np.bool_)
    stays[1:] = passed_ns[1 : len(walk)] == passed_ns[: len(walk)][:-1]
    stays[timelines.first] = False
    tied = np.flatnonzero(stays | np.append(stays[1:], False))  # few: clocks tick fast
    point = walk[tied]
    instant = time_ns[point] == time_ns[point ^ 1]
    base = np.cumsum(~stays[tied]) * _RANKS
    lowest = base + np.where(instant, _HOST_INSTANT, rank[tied])
    rank[tied] = np.maximum.accumulate(lowest) - base
    return rank


def _device_ranks(scope: Scope) -> NDArray[np.int8]:
    """Ranks of the starts and ends of device work."""
    instant = scope.start_ns[scope.device] == scope.end_ns[scope.device]
    start = np.where(instant, _DEVICE_INSTANT, _DEVICE_START)
    end = np.where(instant, _DEVICE_INSTANT, _DEVICE_END)
    return np.stack([start, end], axis=1).ravel().astype(np.int8)


def _settled(
    points: NDArray[np.int32], time_ns: NDArray[np.int64], parts: Sequence[Edges]
) -> NDArray[np.int32]:
    """The same order where no dependency contradicts it; else such points change places.

    Contradictions are rare (clocks of microseconds, or events that take no time), so the few
    points of the same time are sorted one by one.
    """
    if not parts:
        return points
    place = positions(points, len(time_ns))
    instant = [np.flatnonzero(time_ns[one.tail] == time_ns[one.head]) for one in parts]
    tail = np.concatenate([one.tail[at] for one, at in zip(parts, instant, strict=True)])
    head = np.concatenate([one.head[at] for one, at in zip(parts, instant, strict=True)])
    at_ns, tail, head = time_ns[tail], place[tail], place[head]
    wrong = np.unique(at_ns[tail > head])
    if not len(wrong):
        return points
    inner = (tail > 0) & (head < len(points) - 1)  # source and sink keep their places
    inner &= np.isin(at_ns, wrong)
    pairs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for ns, one, other in zip(
        at_ns[inner].tolist(), tail[inner].tolist(), head[inner].tolist(), strict=True
    ):
        pairs[ns].append((one, other))
    points = points.copy()
    for group in pairs.values():
        at = sorted({place for pair in group for place in pair})
        points[at] = points[_sorted(at, group)]
    return points


def _sorted(places: list[int], pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Places in an order in which the first of each pair comes first, else as they were.

    Those on a circle stay as they were, behind the others: the caller finds pairs in the wrong
    order and drops them.
    """
    after: dict[int, list[int]] = defaultdict(list)
    before = dict.fromkeys(places, 0)
    for one, other in pairs:
        after[one].append(other)
        before[other] += 1
    ready = [place for place in places if not before[place]]
    done: list[int] = []
    while ready:
        place = heapq.heappop(ready)
        done.append(place)
        for other in after[place]:
            before[other] -= 1
            if not before[other]:
                heapq.heappush(ready, other)
    known = set(done)
    return done + [place for place in places if place not in known]
