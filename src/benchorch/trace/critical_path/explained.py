"""How would the run have gone had nothing held it up but what is known?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy import int64
from numpy.typing import NDArray

from benchorch.trace.critical_path.contraction import whole
from benchorch.trace.dag import Dag


def explained(dag: Dag) -> Dag:
    """The graph with the times of a replay without unexplained rests, once for each graph."""
    if "explained" not in dag.known:
        rests = np.broadcast_to(np.int64(0), dag.points)
        dag.known["explained"] = replace(dag, time_ns=_times(dag), residual_ns=rests)
    found: Dag = dag.known["explained"]
    return found


def _times(dag: Dag) -> NDArray[int64]:
    """When each point would come, (V,): at the ends of chains by a replay, between them by sums."""
    graph = whole(dag)
    length_ns = graph.lengths(dag.weight_ns)
    junction_ns = dag.time_ns[0] + np.array(graph.elapsed(length_ns), dtype=np.int64)
    passed_ns = np.cumsum(dag.weight_ns[graph.pieces])
    begun_ns = junction_ns[graph.tail] - (np.cumsum(length_ns) - length_ns)
    time_ns = np.full(dag.points, dag.time_ns[0])
    time_ns[dag.head[graph.pieces]] = passed_ns + np.repeat(begun_ns, graph.sizes)
    time_ns[graph.points] = junction_ns
    return time_ns
