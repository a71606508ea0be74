"""Replay of a graph: the time of every point with other weights or without some dependencies.

Between two points passes at least a *step*: the edge's weight and then the unexplained time of its
head. A point comes as late as the latest of the edges into it lets it, so with the observed steps
every observed time comes out again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import Dag

NEVER = 2**62
"""Nanoseconds (146 years) that stand for "no matter how long"; two sums of it still fit 64 bits."""


def replay(
    dag: Dag,
    weight_ns: NDArray[np.int64] | None = None,
    residual_ns: NDArray[np.int64] | None = None,
    dropped: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """The time of every point, in nanoseconds on the trace's clock; the makespan is last - first.

    Without changes it is `dag.time_ns`, to the nanosecond. Linear in the number of edges: one
    look at each, in the order of their heads.

    Parameters
    ----------
    dag : Dag
        Of V points and E edges; with one point and no edge, that point's time is returned.
    weight_ns : int64 array, shape (E,), >= 0
        Instead of the observed weights.
    residual_ns : int64 array, shape (V,), >= 0
        Instead of the observed residuals.
    dropped : bool array, shape (E,)
        Dependencies to be without. Where none would be left into a point, they stay as an order
        without weight: nothing else determines the time of that point.
    """
    step_ns = steps(dag, weight_ns, residual_ns, dropped)
    time_ns = [int(dag.time_ns[0])] * dag.points
    for tail, head, step in zip(
        dag.tail.tolist(), dag.head.tolist(), step_ns.tolist(), strict=True
    ):
        earliest = time_ns[tail] + step
        if earliest > time_ns[head]:
            time_ns[head] = earliest
    return np.array(time_ns, dtype=np.int64)


def steps(
    dag: Dag,
    weight_ns: NDArray[np.int64] | None = None,
    residual_ns: NDArray[np.int64] | None = None,
    dropped: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """How long after its tail each edge lets its head come, (E,) in ns; ``-NEVER`` of no matter.

    The arguments are those of `replay`.
    """
    weight = dag.weight_ns if weight_ns is None else weight_ns
    residual = dag.residual_ns if residual_ns is None else residual_ns
    step = weight + residual[dag.head]
    if dropped is None:
        return step
    others = np.bincount(dag.head[~dropped], minlength=dag.points)[dag.head]
    unheld = np.where(others > 0, -NEVER, residual[dag.head])
    return np.where(dropped, unheld, step)
