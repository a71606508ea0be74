"""Lookups in columns: by lane and time, by a key that joins events, on any other lane."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.arrays import Int32s, Int64s
from benchorch.trace.events import NOTHING, Category, Events, once

_WIDEST = 2**62


def by_lane(
    lane: NDArray[np.integer],
    time_ns: Int64s,
    at_lane: NDArray[np.integer],
    at_ns: Int64s,
    side: Literal["left", "right"] = "left",
) -> Int64s:
    """`np.searchsorted` for pairs of a lane and a time in columns that are sorted by both."""
    if not len(lane) or not len(at_lane):
        return np.zeros(len(at_lane), dtype=np.int64)
    key, keys = _keys((lane, time_ns), (at_lane, at_ns))
    return np.searchsorted(key, keys, side=side)


def _keys(*pairs: tuple[NDArray[np.integer], Int64s]) -> list[Int64s]:
    """One number for each lane with a time, in their order."""
    first_ns = min(int(time_ns.min()) for _, time_ns in pairs)
    span_ns = max(int(time_ns.max()) for _, time_ns in pairs) - first_ns + 1
    if span_ns * (max(int(lane.max()) for lane, _ in pairs) + 1) >= _WIDEST:  # ranks of times fit
        ranks = np.unique(np.concatenate([time_ns for _, time_ns in pairs]))
        return _keys(*((lane, np.searchsorted(ranks, time_ns)) for lane, time_ns in pairs))
    return [lane * np.int64(span_ns) + (time_ns - first_ns) for lane, time_ns in pairs]


def first_after(lane: NDArray[np.integer], start_ns: Int64s, end_ns: Int64s) -> Int64s:
    """First later span that starts at each span's end or later, or is on another lane."""
    return np.maximum(by_lane(lane, start_ns, lane, end_ns), np.arange(1, len(lane) + 1))


def latest_so_far(lane: NDArray[np.integer], end_ns: Int64s, *, strictly: bool = False) -> Int64s:
    """Index of the span that ends last up to each by lane; `strictly` before it, or NOTHING."""
    if not len(lane):
        return np.zeros(0, dtype=np.int64)
    begins = np.diff(lane, prepend=-1) != 0
    (key,) = _keys((np.cumsum(begins), end_ns))
    reached = np.maximum.accumulate(key)
    at = np.maximum.accumulate(np.where(key == reached, np.arange(len(lane)), 0))
    return np.where(begins, NOTHING, np.insert(at[:-1], 0, NOTHING)) if strictly else at


def joined_by(key: Int64s, among: Int64s, requested: Int64s) -> Int64s:
    """Last of the chosen events with each requested key; NOTHING for an absent key."""
    known = among[key[among] != NOTHING]
    if not len(known):
        return np.full(len(requested), NOTHING, dtype=np.int64)
    order = known[np.argsort(key[known], kind="stable")]
    place = np.searchsorted(key[order], requested, side="right") - 1
    found = order[np.maximum(place, 0)]
    fits = (place >= 0) & (key[found] == requested) & (requested != NOTHING)
    return np.where(fits, found, NOTHING)


@once
def launches(events: Events) -> Int32s:
    """The host call or node that started each piece of device work, (n,); NOTHING for all else."""
    device = np.flatnonzero(events.works)
    calls = np.flatnonzero(events.category == Category.RUNTIME)
    found = np.full(len(events), NOTHING, dtype=np.int32)
    call = joined_by(events.correlation, calls, events.correlation[device])
    found[device] = np.where(call == NOTHING, _nodes_of(events, device), call)
    return found


def _nodes_of(events: Events, device: Int64s) -> Int64s:
    """The node before each piece of uncorrelated work in the file: ONNX Runtime writes them so."""
    nodes = np.flatnonzero(events.category == Category.NODE)
    if not len(nodes):
        return np.full(len(device), NOTHING, dtype=np.int64)
    place = np.searchsorted(nodes, device) - 1
    node = nodes[np.maximum(place, 0)]
    known = (place >= 0) & (events.correlation[device] == NOTHING)
    known &= events.start_ns[node] <= events.start_ns[device]
    return np.where(known, node, NOTHING)


def longest(group: Int64s | Int32s, length: NDArray[Any]) -> NDArray[np.intp]:
    """Places of the longest of each group, the first of equals, by group; NOTHING is no group."""
    order = np.lexsort((-length, group))
    found: NDArray[np.intp] = order[np.diff(group[order], prepend=NOTHING) != 0]
    return found


def last_elsewhere(
    programs: Int64s,
    points: tuple[Int64s, Int32s, Int64s],
    lane: Int32s,
    until_ns: Int64s,
    after_ns: Int64s,
) -> Int64s:
    """For each lane the last of some points on another lane of its process, or NOTHING, (n,).

    Points are numbers with lanes and times, (m,); `programs` is that of every lane. Of the interval
    the end counts, the beginning does not.
    """
    if not len(points[0]):
        return np.full(len(lane), NOTHING, dtype=np.int64)
    order = np.lexsort((*points, programs[points[1]]))
    point, on, time_ns = points[0][order], points[1][order], points[2][order]
    begins = np.diff(on, prepend=NOTHING) != 0
    elsewhere = np.maximum.accumulate(np.where(begins, np.arange(len(on)), 0)) - 1
    own = programs[lane]
    at = by_lane(programs[on], time_ns, own, until_ns, "right") - 1
    at = np.where((at >= 0) & (on[at] == lane), elsewhere[at], at)
    near = (at >= 0) & (programs[on[at]] == own) & (time_ns[at] > after_ns)
    return np.where(near, point[at], NOTHING)
