"""Where was a thread at some time, and what happened last on any other?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.events import NOTHING
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EventIndex:
    """Points of several lanes in order of time, to be asked for the last one on another lane.

    Attributes:
        point, lane, time_ns: (m,) of each.
        elsewhere: (m,) the place of the last one before it that is on another lane, or NOTHING.
    """

    point: NDArray[np.int64]
    lane: NDArray[np.int32]
    time_ns: NDArray[np.int64]
    elsewhere: NDArray[np.int64]

    def last_elsewhere(
        self, lane: NDArray[np.int32], until_ns: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """For each lane and time the place of the last moment on another one, or NOTHING.

        A moment at that very time counts.
        """
        at = np.searchsorted(self.time_ns, until_ns, side="right") - 1
        if not len(self.point):
            return at
        own = (at >= 0) & (self.lane[at] == lane)
        return np.where(own, self.elsewhere[at], at)


def moments(
    point: NDArray[np.int64], lane: NDArray[np.int32], time_ns: NDArray[np.int64]
) -> EventIndex:
    """These points in order of time; those of the same time in that of lanes and points."""
    order = np.lexsort((point, lane, time_ns))
    point, lane, time_ns = point[order], lane[order], time_ns[order]
    begins = np.diff(lane, prepend=NOTHING) != 0
    run = np.maximum.accumulate(np.where(begins, np.arange(len(lane)), 0))
    return EventIndex(point=point, lane=lane, time_ns=time_ns, elsewhere=run - 1)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentIndex:
    """When each thread passed its points, to be asked for the stretch it was in at some time.

    Attributes:
        lane: (s,) of every stretch of the chains.
        starts_ns, ends_ns: (s,).
    """

    lane: NDArray[np.int32]
    starts_ns: NDArray[np.int64]
    ends_ns: NDArray[np.int64]

    @property
    def elapsed_ns(self) -> NDArray[np.int64]:
        """How long each stretch took."""
        return self.ends_ns - self.starts_ns

    def stretch_at(self, lane: NDArray[np.int32], at_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The last stretch of each lane that began by then and has not ended before, or NOTHING."""
        if not len(self.lane) or not len(lane):
            return np.full(len(lane), NOTHING, dtype=np.int64)
        first_ns = self.starts_ns.min()
        span_ns = int(self.ends_ns.max() - first_ns) + 1
        key = self.lane * np.int64(span_ns) + (self.starts_ns - first_ns)
        asked = lane * np.int64(span_ns) + np.clip(at_ns - first_ns, 0, span_ns - 1)
        at = np.searchsorted(key, asked, side="right") - 1
        inside = (at >= 0) & (self.lane[at] == lane)
        inside &= (self.starts_ns[at] <= at_ns) & (self.ends_ns[at] >= at_ns)
        return np.where(inside, at, NOTHING)


def timetable(scope: Scope, chains: ThreadTimelines, time_ns: NDArray[np.int64]) -> SegmentIndex:
    """That of all threads."""
    return SegmentIndex(
        lane=scope.lane[chains.head >> 1],
        starts_ns=time_ns[chains.tail],
        ends_ns=time_ns[chains.head],
    )
