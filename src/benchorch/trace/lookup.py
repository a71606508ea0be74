"""Lookups in columns: by lane and time, by a key that joins events, on any other lane."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.arrays import Int32s, Int64s
from benchorch.trace.events import NOTHING

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
    first_ns = min(time_ns.min(), at_ns.min())
    span_ns = int(max(time_ns.max(), at_ns.max())) - int(first_ns) + 1
    if span_ns * (int(max(lane.max(), at_lane.max())) + 1) >= _WIDEST:  # ranks of times fit
        ranks = np.unique(np.concatenate([time_ns, at_ns]))
        time_ns, at_ns = np.searchsorted(ranks, time_ns), np.searchsorted(ranks, at_ns)
        first_ns, span_ns = np.int64(0), len(ranks)
    key = lane * np.int64(span_ns) + (time_ns - first_ns)
    keys = at_lane * np.int64(span_ns) + (at_ns - first_ns)
    places: Int64s = np.searchsorted(key, keys, side=side)
    return places


def first_after(lane: NDArray[np.integer], start_ns: Int64s, end_ns: Int64s) -> Int64s:
    """First later span that starts at each span's end or later, or is on another lane."""
    return np.maximum(by_lane(lane, start_ns, lane, end_ns), np.arange(1, len(lane) + 1))


def latest_so_far(lane: NDArray[np.integer], end_ns: Int64s, *, strictly: bool = False) -> Int64s:
    """Index of the span that ends last up to each by lane; `strictly` before it, or NOTHING."""
    if not len(lane):
        return np.zeros(0, dtype=np.int64)
    begins = np.diff(lane, prepend=-1) != 0
    lanes = np.cumsum(begins)
    first_ns, span_ns = int(end_ns.min()), int(end_ns.max()) - int(end_ns.min()) + 1
    if span_ns * (int(lanes[-1]) + 1) >= _WIDEST:  # ranks of times fit
        end_ns = np.unique(end_ns, return_inverse=True)[1]
        first_ns, span_ns = 0, len(end_ns)
    key = lanes * span_ns + end_ns - first_ns
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
    return np.where(
        (place >= 0) & (key[found] == requested) & (requested != NOTHING), found, NOTHING
    )


def last_elsewhere(
    ranks: Int64s,
    points: tuple[Int64s, Int32s, Int64s],
    lane: Int32s,
    until_ns: Int64s,
    after_ns: Int64s,
) -> Int64s:
    """For each lane the last of some points on another lane of its rank, or NOTHING, (n,).

    Points are numbers with lanes and times, (m,); `ranks` is that of every lane. Of the interval
    the end counts, the beginning does not.
    """
    if not len(points[0]):
        return np.full(len(lane), NOTHING, dtype=np.int64)
    order = np.lexsort((*points, ranks[points[1]]))
    point, on, time_ns = points[0][order], points[1][order], points[2][order]
    begins = np.diff(on, prepend=NOTHING) != 0
    elsewhere = np.maximum.accumulate(np.where(begins, np.arange(len(on)), 0)) - 1
    own = ranks[lane]
    at = by_lane(ranks[on], time_ns, own, until_ns, "right") - 1
    at = np.where((at >= 0) & (on[at] == lane), elsewhere[at], at)
    near = (at >= 0) & (ranks[on[at]] == own) & (time_ns[at] > after_ns)
    return np.where(near, point[at], NOTHING)
