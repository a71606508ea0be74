"""Lookups in columns: by lane and time, by a key that joins events, on any other lane."""

from dataclasses import dataclass
from typing import Literal, final

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
    """Index of the span that ends last up to each span, or before it, by lane.

    NOTHING where there is none before.
    """
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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EventIndex:
    """Points of several lanes by rank, which is a process of its own, and in order of time."""

    ranks: Int64s  # of every lane
    point: Int64s  # and lane, time_ns: (m,) of each
    lane: Int32s
    time_ns: Int64s
    # (m,) the place of the last one before it that is on another lane, or NOTHING
    elsewhere: Int64s

    def last_elsewhere(self, lane: Int32s, until_ns: Int64s, after_ns: Int64s) -> Int64s:
        """For each lane the last point on another one after a time and until another, or NOTHING.

        The other lane is of the same rank. A point at the later of the two times counts.
        """
        if not len(self.point):
            return np.full(len(lane), NOTHING, dtype=np.int64)
        own = self.ranks[lane]
        at = by_lane(self.ranks[self.lane], self.time_ns, own, until_ns, "right") - 1
        at = np.where((at >= 0) & (self.lane[at] == lane), self.elsewhere[at], at)
        near = (at >= 0) & (self.ranks[self.lane[at]] == own) & (self.time_ns[at] > after_ns)
        return np.where(near, self.point[at], NOTHING)


def event_index(ranks: Int64s, point: Int64s, lane: Int32s, time_ns: Int64s) -> EventIndex:
    """These points by rank and time; those of the same time in the order of lanes and points."""
    order = np.lexsort((point, lane, time_ns, ranks[lane]))
    point, lane, time_ns = point[order], lane[order], time_ns[order]
    begins = np.diff(lane, prepend=NOTHING) != 0
    run = np.maximum.accumulate(np.where(begins, np.arange(len(lane)), 0))
    return EventIndex(ranks=ranks, point=point, lane=lane, time_ns=time_ns, elsewhere=run - 1)
