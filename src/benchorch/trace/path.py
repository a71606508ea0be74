"""Which chain of stretches does the makespan consist of?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchorch.trace.dag import CLASSES, NOBODY, Class, CriticalPath, EdgeKind, Tier

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

    from benchorch.trace.dag import Dag


def critical_path(dag: Dag) -> CriticalPath:
    """The observed critical path: from the sink back along the edges that held each point up.

    Of several edges that held up the same point the first in this order counts: one that is
    recorded or meant before one that is inferred, then the kinds as `EdgeKind` lists them (work,
    chain, launch, stream, ...), then the lower index of the tail's event, then of the edge. So one
    trace has one path. Stretches of no length are left out; a graph of one point has none.
    """
    import numpy as np

    edge = _walk_back(dag)
    head = dag.head[edge]
    weight_ns, residual_ns = dag.weight_ns[edge], dag.residual_ns[head]
    start_ns = dag.time_ns[dag.tail[edge]]
    duration_ns = np.stack([weight_ns, residual_ns], axis=1).ravel()
    took_time = duration_ns > 0
    residual = np.tile([False, True], len(edge))[took_time]
    edge = np.repeat(edge, 2)[took_time]
    unexplained = CLASSES.index(Class.UNEXPLAINED)
    return CriticalPath(
        start_ns=np.stack([start_ns, start_ns + weight_ns], axis=1).ravel()[took_time],
        duration_ns=duration_ns[took_time],
        edge=edge.astype(np.int32),
        residual=residual,
        owner=np.where(residual, NOBODY, dag.owner[edge]).astype(np.int32),
        label=np.where(residual, unexplained, dag.label[edge]).astype(np.int8),
        tier=np.where(residual, Tier.UNEXPLAINED, dag.tier[edge]).astype(np.int8),
    )


def _walk_back(dag: Dag) -> NDArray[int64]:
    """The edges of the path, in order of time."""
    import numpy as np

    binding = binding_edges(dag)
    before = np.where(binding >= 0, dag.tail[binding] if dag.edges else -1, -1).tolist()
    point, points = dag.points - 1, []
    while before[point] >= 0:
        points.append(point)
        point = before[point]
    return binding[np.array(points[::-1], dtype=np.int64)]


def binding_edges(dag: Dag) -> NDArray[int64]:
    """The edge that held each point up, (V,), by the rule of `critical_path`; -1 at the source."""
    import numpy as np

    earliest = dag.time_ns[dag.tail] + dag.weight_ns + dag.residual_ns[dag.head]
    tight = np.flatnonzero(earliest == dag.time_ns[dag.head])
    binding = np.full(dag.points, -1, dtype=np.int64)
    if not len(tight):
        return binding
    rank = dag.kind[tight].astype(np.int64) + len(EdgeKind) * (dag.tier[tight] >= Tier.INFERRED)
    key = (rank << 32) + dag.event[dag.tail[tight]] - NOBODY
    head = dag.head[tight]
    begins = np.flatnonzero(np.diff(head, prepend=-1))
    least = np.repeat(np.minimum.reduceat(key, begins), np.diff(begins, append=len(tight)))
    chosen = np.flatnonzero(key == least)[::-1]  # of equals the first is written last
    binding[head[chosen]] = tight[chosen]
    return binding
