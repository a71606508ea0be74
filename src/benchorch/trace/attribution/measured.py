"""Attribution of time, in the graph and on its path, to events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import NOBODY, CriticalPath, Dag


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerTimes:
    """Time in ns by owner; arrays have shape (n + 1,), the last entry is the time of none.

    Attributes:
        total_ns: rigid time in the interval: work, overhead, gaps; waiting is not part of it.
        on_path_ns: of it, on the critical path, with the unexplained time of the path as that of
            none: it sums to the path.
        in_window: whether the event has a point in the interval.
    """

    total_ns: NDArray[np.int64]
    on_path_ns: NDArray[np.int64]
    in_window: NDArray[np.bool_]


def measured(dag: Dag, path: CriticalPath, interval_ns: tuple[int, int], events: int) -> OwnerTimes:
    """Time of each of so many events in an interval of the graph, and on its path."""
    begin_ns, end_ns = interval_ns
    at_ns = dag.time_ns[dag.head]
    inside = (at_ns > begin_ns) & (at_ns <= end_ns)
    points = (dag.time_ns >= begin_ns) & (dag.time_ns <= end_ns) & (dag.event != NOBODY)
    in_window = np.zeros(events + 1, dtype=np.bool_)
    in_window[dag.event[points]] = True
    return OwnerTimes(
        total_ns=_summed(dag.owner[inside], dag.weight_ns[inside], events),
        on_path_ns=_summed(path.owner, path.duration_ns, events),
        in_window=in_window,
    )


def _summed(owner: NDArray[np.int32], time_ns: NDArray[np.int64], events: int) -> NDArray[np.int64]:
    """Integers by owner, exactly: sums of less than 2**53 ns (104 days) fit a double."""
    place = np.where(owner == NOBODY, events, owner)
    return np.bincount(place, weights=time_ns, minlength=events + 1).astype(np.int64)
