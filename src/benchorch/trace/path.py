"""Which chain of stretches does the makespan consist of?"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from benchorch.trace.dag import CLASSES, NOBODY, Class, CriticalPath, EdgeKind, Tier

if TYPE_CHECKING:
    from numpy import int32, int64
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

    earliest = dag.time_ns[dag.tail] + dag.weight_ns + dag.residual_ns[dag.head]
    tight = np.flatnonzero(earliest == dag.time_ns[dag.head])
    edges = walk_back(dag.tail, binding_edges(dag, tight))
    return path_along(dag, edges, dag.weight_ns, dag.residual_ns)


def binding_edges(dag: Dag, tight: NDArray[int64]) -> NDArray[int64]:
    """Which edge holds each point up, by the rule of `critical_path`: (V,), -1 for none.

    Args:
        dag: whose edges they are.
        tight: the edges to choose from, ascending: those that let their head come no sooner.
    """
    import numpy as np

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


def walk_back(tail: NDArray[int32], binding: NDArray[int64]) -> NDArray[int64]:
    """The edges from the first point to the last by which holds each up, in order of time.

    Args:
        tail: (E,) where each edge comes from.
        binding: (V,) the edge that holds each point up, -1 where none does.
    """
    import numpy as np

    before = np.full(len(binding), -1, dtype=np.int64)
    held = binding >= 0
    before[held] = tail[binding[held]]
    earlier = before.tolist()
    point, points = len(binding) - 1, []
    while earlier[point] >= 0:
        points.append(point)
        point = earlier[point]
    return binding[np.array(points[::-1], dtype=np.int64)]


def path_along(
    dag: Dag, edges: NDArray[int64], weight_ns: NDArray[int64], residual_ns: NDArray[int64]
) -> CriticalPath:
    """The stretches that edges which follow each other make, with these weights and residuals.

    Args:
        dag: whose edges they are.
        edges: from the source, each one's tail the head of the one before.
        weight_ns: (E,), residual_ns: (V,): of the whole graph, as `replay` takes them.
    """
    import numpy as np

    both_ns = np.empty(2 * len(edges), dtype=np.int64)
    both_ns[::2], both_ns[1::2] = weight_ns[edges], residual_ns[dag.head[edges]]
    took_time = np.flatnonzero(both_ns)
    duration_ns, edge = both_ns[took_time], edges[took_time >> 1]
    residual = (took_time & 1).astype(np.bool_)
    unexplained = CLASSES.index(Class.UNEXPLAINED)
    return CriticalPath(
        start_ns=dag.time_ns[0] + np.cumsum(duration_ns) - duration_ns,
        duration_ns=duration_ns,
        edge=edge.astype(np.int32),
        residual=residual,
        owner=np.where(residual, NOBODY, dag.owner[edge]).astype(np.int32),
        label=np.where(residual, unexplained, dag.label[edge]).astype(np.int8),
        tier=np.where(residual, Tier.UNEXPLAINED, dag.tier[edge]).astype(np.int8),
    )


def retimed(
    dag: Dag, path: CriticalPath, weight_ns: NDArray[int64], residual_ns: NDArray[int64]
) -> CriticalPath:
    """The same stretches with other weights and residuals; those of no length are left out."""
    import numpy as np

    rest_ns = residual_ns[dag.head[path.edge]] if path.residual.any() else 0
    duration_ns = np.where(path.residual, rest_ns, weight_ns[path.edge])
    timed = replace(
        path,
        start_ns=dag.time_ns[0] + np.cumsum(duration_ns) - duration_ns,
        duration_ns=duration_ns,
    )
    took_time = duration_ns > 0
    if took_time.all():
        return timed
    return CriticalPath(
        **{column.name: getattr(timed, column.name)[took_time] for column in fields(timed)}
    )
