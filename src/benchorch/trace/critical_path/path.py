"""Critical path: the chain of segments that the makespan consists of."""

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import CLASSES, NOBODY, Class, CriticalPath, Dag, EdgeKind, Tier

STRIDE_DOUBLINGS = 5
"""Doublings of a walk's stride: 32 steps cost five visits of every point and spare 31 in 32."""


def critical_path(dag: Dag, point: int = -1, begin_ns: int | None = None) -> CriticalPath:
    """The observed critical path: from a point back along the edges that held each point up.

    Of several edges that held up the same point the first in this order counts: one that is
    recorded or meant before one that is inferred, then the kinds as `EdgeKind` lists them (work,
    chain, launch, stream, ...), then the lower index of the tail's event, then of the edge. So one
    trace has one path. Segments of no length are left out; a graph of one point has none.

    Args:
        dag: the graph.
        point: where the path ends, by default at the sink.
        begin_ns: where it is cut, by default at the source.
    """
    earliest = dag.time_ns[dag.tail] + dag.weight_ns + dag.residual_ns[dag.head]
    tight = np.flatnonzero(earliest == dag.time_ns[dag.head])
    end = dag.points - 1 if point < 0 else point
    edges = walk_back(dag.tail, dag.head, binding_edges(dag, tight), dag.points, end)
    whole = path_along(dag, edges, dag.weight_ns, dag.residual_ns)
    return whole if begin_ns is None else whole.since(begin_ns)


def binding_edges(dag: Dag, tight: NDArray[np.int64]) -> NDArray[np.int64]:
    """The binding edge of each point that some edges hold up, ascending.

    Args:
        dag: whose edges they are.
        tight: the edges to choose from, ascending: those that let their head come no sooner.
    """
    if not len(tight):
        return tight
    rank = dag.kind[tight].astype(np.int64) + len(EdgeKind) * (dag.tier[tight] >= Tier.INFERRED)
    key = (rank << 32) + dag.event[dag.tail[tight]] - NOBODY
    head = dag.head[tight]
    begins = np.flatnonzero(np.diff(head, prepend=-1))
    least = np.repeat(np.minimum.reduceat(key, begins), np.diff(begins, append=len(tight)))
    chosen = np.flatnonzero(key == least)
    return tight[chosen[np.diff(head[chosen], prepend=-1) > 0]]  # of equals the first


def walk_back(
    tail: NDArray[np.int32],
    head: NDArray[np.int32],
    binding: NDArray[np.int64],
    points: int,
    end: int,
) -> NDArray[np.int64]:
    """The edges from the first point to another by which holds each up, in order of time.

    The walk goes in strides, which are worked out for all points at once; the steps of all
    strides are then taken side by side.

    Args:
        tail, head: (E,) where each edge comes from and leads to.
        binding: the edges that hold points up, at most one for each point.
        points: how many there are; what holds up none of them is the first.
        end: the point to walk back from.
    """
    held_by = np.full(points, -1, dtype=np.int64)
    held_by[head[binding]] = binding
    before = np.arange(points, dtype=np.int32)  # the first one stays where it is
    before[head[binding]] = tail[binding]
    far = before
    for _ in range(STRIDE_DOUBLINGS):
        far = far[far]
    point, landed = end, list[int]()
    strides = memoryview(far.data)
    while strides[point] != point:
        landed.append(point)
        point = strides[point]
    steps = np.empty((1 << STRIDE_DOUBLINGS, len(landed)), dtype=np.int32)
    at = np.array(landed, dtype=np.int32)
    for row in steps:
        row[:] = at
        at = before[at]
    edges = held_by[steps.T.ravel()[::-1]]
    return edges[edges >= 0]


def path_along(
    dag: Dag, edges: NDArray[np.int64], weight_ns: NDArray[np.int64], residual_ns: NDArray[np.int64]
) -> CriticalPath:
    """The path along edges that follow each other, with these weights and residuals.

    Args:
        dag: whose edges they are.
        edges: from the source, each one's tail the head of the one before.
        weight_ns: (E,), residual_ns: (V,): of the whole graph, as `replay` takes them.
    """
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
