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


def steps(
    dag: Dag,
    weight_ns: NDArray[np.int64] | None = None,
    residual_ns: NDArray[np.int64] | None = None,
    dropped: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """How long after its tail each edge lets its head come, (E,) in ns; ``-NEVER`` of no matter.

    Parameters
    ----------
    dag : Dag
        Of V points and E edges.
    weight_ns : int64 array, shape (E,), >= 0
        Instead of the observed weights.
    residual_ns : int64 array, shape (V,), >= 0
        Instead of the observed residuals.
    dropped : bool array, shape (E,)
        Dependencies to be without. Where none would be left into a point, they stay as an order
        without weight: nothing else determines the time of that point.
    """
    weight = dag.weight_ns if weight_ns is None else weight_ns
    residual = dag.residual_ns if residual_ns is None else residual_ns
    step = weight + residual[dag.head]
    if dropped is None:
        return step
    others = np.bincount(dag.head[~dropped], minlength=dag.points)[dag.head]
    unheld = np.where(others > 0, -NEVER, residual[dag.head])
    return np.where(dropped, unheld, step)
