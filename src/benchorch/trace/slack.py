"""How much longer could each piece have taken before the whole had?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchorch.trace.replay import NEVER, steps

if TYPE_CHECKING:
    from numpy import bool_, int64
    from numpy.typing import NDArray

    from benchorch.trace.dag import Dag

NEAR_RATIO = 0.01
"""Of the makespan: with less than this to spare, an edge is as good as critical."""


def slack(dag: Dag) -> NDArray[int64]:
    """By how much each edge's longest way from source to sink is shorter than the makespan.

    Longer by d, an edge makes the makespan longer by exactly ``max(0, d - slack)``.

    Returns:
        (E,) nanoseconds, >= 0, and 0 on the critical path; at least half of `NEVER` where
        nothing that matters comes after. Empty for a graph without edges.
    """
    elapsed = dag.time_ns[dag.tail] - dag.time_ns[0]
    longest: NDArray[int64] = elapsed + steps(dag) + remaining(dag)[dag.head]
    return dag.makespan_ns - longest


def remaining(dag: Dag) -> NDArray[int64]:
    """The longest way from each point to the sink, (V,) in ns; 0 at the sink.

    About ``-NEVER`` at points from which no way leads there.
    """
    import numpy as np

    rest_ns = [-NEVER] * dag.points
    rest_ns[-1] = 0
    edges = (dag.tail[::-1].tolist(), dag.head[::-1].tolist(), steps(dag)[::-1].tolist())
    for tail, head, step in zip(*edges, strict=True):
        longest = rest_ns[head] + step
        if longest > rest_ns[tail]:
            rest_ns[tail] = longest
    return np.array(rest_ns, dtype=np.int64)


def near_critical(slack_ns: NDArray[int64], makespan_ns: int) -> NDArray[bool_]:
    """Which edges are critical or nearly so, (E,): one path is a fiction where two are close."""
    return slack_ns < NEAR_RATIO * makespan_ns
