from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.critical_path.batched_replay import batched_replay
from benchorch.trace.critical_path.contraction import whole
from benchorch.trace.dag import Dag
from support.random_graphs import dags, lane_dags


@given(
    dag=dags() | lane_dags(),
    segment=st.integers(1, 9),
    scenarios=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_segments_side_by_side_say_what_one_sweep_says(
    dag: Dag, segment: int, scenarios: int, seed: int
) -> None:
    graph = whole(dag)
    lengths = np.random.default_rng(seed).integers(0, 50, size=(scenarios, len(graph.tail)))
    plan = batched_replay(graph.tail, graph.head, len(graph.points), segment)
    if plan is not None and len(graph.tail):
        expected = [graph.elapsed(row)[-1] for row in lengths]
        assert plan.makespans_ns(lengths).tolist() == expected


def test_a_graph_of_two_lanes_is_narrow_enough() -> None:
    lane = np.arange(0, 2_000, 2)
    tail = np.concatenate([lane[:-1], lane + 1, lane])
    head = np.concatenate([lane[1:], np.minimum(lane + 3, 2_000), lane + 1])
    order = np.argsort(head, kind="stable")
    plan = batched_replay(tail[order], head[order], 2_001)
    assert plan is not None
    assert len(plan.opened) == 4
