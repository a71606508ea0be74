from __future__ import annotations

import numpy as np
from hypothesis import given

from benchorch.trace.critical_path.explained import explained
from benchorch.trace.critical_path.replay import replay
from benchorch.trace.dag import Dag
from support.random_graphs import dags, lane_dags


@given(dag=dags() | lane_dags())
def test_its_times_are_those_of_a_replay_without_unexplained_rests(dag: Dag) -> None:
    found = explained(dag)
    assert (
        found.time_ns.tolist() == replay(dag, residual_ns=np.zeros_like(dag.residual_ns)).tolist()
    )
    assert replay(found).tolist() == found.time_ns.tolist()
