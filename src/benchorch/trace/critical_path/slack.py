"""How much longer could each piece have taken before the whole had?"""

from __future__ import annotations

import numpy as np
from numpy import bool_, int64
from numpy.typing import NDArray

from benchorch.trace.critical_path.contraction import whole
from benchorch.trace.dag import Dag

NEAR_RATIO = 0.01
"""Of the makespan: with less than this to spare, an edge is as good as critical."""


def slack(dag: Dag) -> NDArray[int64]:
    """By how much each edge's longest way from source to sink is shorter than the makespan.

    Longer by d, an edge makes the makespan longer by exactly ``max(0, d - slack)``. Worked out
    once for each graph.

    Returns:
        (E,) nanoseconds, >= 0, and 0 on the critical path; at least half of `NEVER` where
        nothing that matters comes after. Empty for a graph without edges. Not to be written to.
    """
    if "slack_ns" not in dag.known:
        dag.known["slack_ns"] = _slack(dag)
    found: NDArray[int64] = dag.known["slack_ns"]
    return found


def _slack(dag: Dag) -> NDArray[int64]:
    """What a chain has to spare, each of its edges has."""
    small = whole(dag)
    spare_ns = np.empty(dag.edges, dtype=np.int64)
    spare_ns[small.pieces] = np.repeat(small.slack(), small.sizes)
    spare_ns.flags.writeable = False
    return spare_ns


def near_critical(slack_ns: NDArray[int64], makespan_ns: int) -> NDArray[bool_]:
    """Which edges are critical or nearly so, (E,): one path is a fiction where two are close."""
    return slack_ns < NEAR_RATIO * makespan_ns
