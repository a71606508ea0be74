"""Attribution of the window's time, and of the critical path, to events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.critical_path.path import binding_edges
from benchorch.trace.critical_path.slack import near_critical
from benchorch.trace.dag import NOBODY, CriticalPath, Dag, EdgeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerTimes:
    """Time in ns by owner; arrays have shape (n + 1,), the last entry is the time of none.

    Attributes:
        total_ns: rigid time in the window: work, overhead, gaps; waiting is not part of it.
        on_path_ns: of it, on the critical path, with the unexplained time of the path as that of
            none: it sums to the makespan.
        near_path_ns: of it, on edges with less than a hundredth of the makespan to spare.
        device_ns: of it, work of a device.
        blame_ns: how long other lanes stood still until something of this event let them go on.
        in_window: whether the event has a point in the graph.
    """

    total_ns: NDArray[np.int64]
    on_path_ns: NDArray[np.int64]
    near_path_ns: NDArray[np.int64]
    device_ns: NDArray[np.int64]
    blame_ns: NDArray[np.int64]
    in_window: NDArray[np.bool_]


def measured(dag: Dag, path: CriticalPath, slack_ns: NDArray[np.int64], events: int) -> OwnerTimes:
    """Time of each of so many events in the graph and on its path."""
    near = near_critical(slack_ns, dag.makespan_ns)
    device = dag.kind == EdgeKind.WORK
    in_window = np.zeros(events + 1, dtype=np.bool_)
    in_window[dag.event[dag.event != NOBODY]] = True
    return OwnerTimes(
        total_ns=_summed(dag.owner, dag.weight_ns, events),
        on_path_ns=_summed(path.owner, path.duration_ns, events),
        near_path_ns=_summed(dag.owner[near], dag.weight_ns[near], events),
        device_ns=_summed(dag.owner[device], dag.weight_ns[device], events),
        blame_ns=_blame(dag, events),
        in_window=in_window,
    )


def _blame(dag: Dag, events: int) -> NDArray[np.int64]:
    """Waiting charged to what ended it: the event at the tail of a point's binding edge.

    A point waits where the edge that held it up comes from another lane, from when its own lane
    would have let it go on.
    """
    lane, never = dag.lane, np.iinfo(np.int64).min
    earliest = dag.time_ns[dag.tail] + dag.weight_ns + dag.residual_ns[dag.head]
    binding = binding_edges(dag, np.flatnonzero(earliest == dag.time_ns[dag.head]))
    binding = binding[lane[dag.tail[binding]] != lane[dag.head[binding]]]
    held_up = np.zeros(dag.points, dtype=np.bool_)
    held_up[dag.head[binding]] = True
    into = np.flatnonzero(held_up[dag.head])
    same = into[lane[dag.tail[into]] == lane[dag.head[into]]]
    ready_ns = np.full(dag.points, never)
    np.maximum.at(ready_ns, dag.head[same], dag.time_ns[dag.tail[same]] + dag.weight_ns[same])
    binding = binding[ready_ns[dag.head[binding]] > never]
    point = dag.head[binding]
    waited_ns = dag.time_ns[point] - dag.residual_ns[point] - ready_ns[point]
    return _summed(dag.event[dag.tail[binding]], np.maximum(waited_ns, 0), events)


def _summed(owner: NDArray[np.int32], time_ns: NDArray[np.int64], events: int) -> NDArray[np.int64]:
    """Integers by owner, exactly: sums of less than 2**53 ns (104 days) fit a double."""
    place = np.where(owner == NOBODY, events, owner)
    return np.bincount(place, weights=time_ns, minlength=events + 1).astype(np.int64)
