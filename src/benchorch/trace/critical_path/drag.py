"""Drag of each edge: how much the makespan would shrink if the edge took no time.

Every way from source to sink crosses the cut behind a point exactly once, as points are numbered
in topological order. A way that avoids an edge crosses the cut behind the edge's tail by another
one. So without the edge's weight the makespan falls to that of the best other edge across its
cut, or by all of the weight, whichever is less: the drag is ``min(weight, least slack of the
others across the cut)``.

Source: Devaux, *Total Project Control*, 1999, for the quantity, an activity's drag.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.critical_path.replay import NEVER
from benchorch.trace.critical_path.slack import slack
from benchorch.trace.dag import Dag


def drag(dag: Dag, slack_ns: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """The makespan less that of a replay where the edge has no weight, exactly, for each edge.

    Args:
        dag: of E edges; without any, the answer is empty.
        slack_ns: the result of `slack`, if there is one already.

    Returns:
        (E,) nanoseconds: ``0 <= drag <= weight``, above 0 only on edges that every longest way
        shares. Takes O(E + V log V).
    """
    spare_ns = slack(dag) if slack_ns is None else slack_ns
    critical = spare_ns == 0
    alone = critical & (_crossings(dag, critical)[dag.tail] == 1)
    cuts = dag.tail[alone]  # those of one path ascend with their heads
    others = ~critical
    least_ns = least_over(
        np.searchsorted(cuts, dag.tail[others]),
        np.searchsorted(cuts, dag.head[others]),
        spare_ns[others],
        len(cuts),
    )
    result = np.zeros(dag.edges, dtype=np.int64)
    result[alone] = np.minimum(dag.weight_ns[alone], least_ns)
    return result


def _crossings(dag: Dag, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many of the chosen edges cross the cut behind each point, (V,)."""
    begun = np.bincount(dag.tail[chosen], minlength=dag.points)
    ended = np.bincount(dag.head[chosen], minlength=dag.points)
    return np.cumsum(begun - ended)


def least_over(
    first: NDArray[np.int64], end: NDArray[np.int64], value: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """The least value among the intervals that cover each of 0 .. size - 1; `NEVER` for none.

    Every interval ``[first, end)`` is covered by two, perhaps overlapping, whose length is a power
    of two, and these hand their values down to their halves: a sparse table turned around, so that
    n intervals take O(n + size log size). Empty intervals cover nothing.
    """
    covering = end > first
    first, end, value = first[covering], end[covering], value[covering]
    level = np.frexp(end - first)[1] - 1  # the power of two that fits in
    least = np.full(size, NEVER, dtype=np.int64)  # by where it begins
    for depth in range(int(size).bit_length() - 1, -1, -1):
        half, here = 1 << depth, level == depth
        below = least.copy()
        np.minimum(below[half:], least[:-half], out=below[half:])
        np.minimum.at(below, first[here], value[here])
        np.minimum.at(below, end[here] - half, value[here])
        least = below
    return least
