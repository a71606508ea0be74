"""Critical path: the chain of segments that the makespan consists of."""

import numpy as np

from benchorch.trace.arrays import Int32s, Int64s, mask
from benchorch.trace.dag import CLASSES, NOBODY, Class, CriticalPath, Dag, EdgeKind, Tier

STRIDE_DOUBLINGS = 5  # 32 steps cost five visits of every point and spare 31 in 32


def critical_path(dag: Dag, point: int = -1, begin_ns: int | None = None) -> CriticalPath:
    """The observed critical path: from a point back along the edges that held each point up.

    Of several such edges the first counts: not inferred before inferred, then in the order of
    `EdgeKind`, of the tail's event, of edges. Segments of no length are left out.
    """
    spare_ns = dag.time_ns[dag.head]  # in place: these are the largest arrays of an analysis
    spare_ns -= dag.time_ns[dag.tail]
    spare_ns -= dag.weight_ns
    spare_ns -= dag.residual_ns[dag.head]
    tight = np.flatnonzero(spare_ns == 0)
    del spare_ns
    end = dag.points - 1 if point < 0 else point
    edges = walk_back(dag.tail, dag.head, binding_edges(dag, tight), dag.points, end)
    whole = path_along(dag, edges, dag.weight_ns, dag.residual_ns)
    return whole if begin_ns is None else whole.since(begin_ns)


def binding_edges(dag: Dag, tight: Int64s) -> Int64s:
    """The binding edge of each point that some edges hold up, ascending; most have one."""
    head = dag.head[tight]
    same = head[1:] == head[:-1]
    rivals = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    if not len(rivals):
        return tight
    edges, head = tight[rivals], head[rivals]
    key = dag.kind[edges].astype(np.int64)
    key += len(EdgeKind) * (dag.tier[edges] >= Tier.INFERRED)
    key <<= 32
    key += dag.event[dag.tail[edges]] - NOBODY
    begins = np.flatnonzero(np.diff(head, prepend=-1))
    least = np.repeat(np.minimum.reduceat(key, begins), np.diff(begins, append=len(edges)))
    chosen = np.flatnonzero(key == least)
    kept = ~mask(len(tight), rivals)
    kept[rivals[chosen[np.diff(head[chosen], prepend=-1) > 0]]] = True  # of equals the first
    return tight[kept]


def walk_back(tail: Int32s, head: Int32s, binding: Int64s, points: int, end: int) -> Int64s:
    """The edges from the first point to another by which holds each up, in order of time.

    Strides of many steps are worked out for all points, the steps of all strides side by side.
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


def path_along(dag: Dag, edges: Int64s, weight_ns: Int64s, residual_ns: Int64s) -> CriticalPath:
    """The path along edges that follow each other, with these weights and residuals."""
    held_ns, late_ns = weight_ns[edges], residual_ns[dag.head[edges]]
    held, late = np.flatnonzero(held_ns), np.flatnonzero(late_ns)  # of these there are few
    before = np.searchsorted(held, late, side="right")
    duration_ns = np.insert(held_ns[held], before, late_ns[late])
    edge = np.insert(edges[held], before, edges[late])
    residual = mask(len(edge), before + np.arange(len(late)))
    owner, label, tier = dag.owner[edge], dag.label[edge], dag.tier[edge]
    owner[residual] = NOBODY
    label[residual] = CLASSES.index(Class.UNEXPLAINED)
    tier[residual] = Tier.UNEXPLAINED
    return CriticalPath(
        start_ns=dag.time_ns[0] + np.cumsum(duration_ns) - duration_ns,
        duration_ns=duration_ns,
        edge=edge.astype(np.int32),
        residual=residual,
        owner=owner,
        label=label,
        tier=tier,
    )
