"""Slack of every edge: how much longer it could have taken before the makespan had."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.critical_path.contraction import whole
from benchorch.trace.dag import Dag
from benchorch.trace.memo import once

NEAR_RATIO = 0.01
"""Of the makespan: with less slack than this, an edge is as good as critical."""


@once
def slack(dag: Dag) -> NDArray[np.int64]:
    """By how much each edge's longest way from source to sink is shorter than the makespan.

    Longer by d, an edge makes the makespan longer by exactly ``max(0, d - slack)``. Worked out
    once for each graph.

    Returns:
        (E,) nanoseconds, >= 0, and 0 on the critical path; at least half of `NEVER` where
        nothing that matters comes after. Empty for a graph without edges. Not to be written to.
    """
    small = whole(dag)
    spare_ns = np.empty(dag.edges, dtype=np.int64)
    spare_ns[small.edges] = np.repeat(small.slack, small.sizes)
    spare_ns.flags.writeable = False
    return spare_ns


def near_critical(slack_ns: NDArray[np.int64], makespan_ns: int) -> NDArray[np.bool_]:
    """Which edges are critical or nearly so, (E,): one path is a fiction where two are close."""
    return slack_ns < NEAR_RATIO * makespan_ns
