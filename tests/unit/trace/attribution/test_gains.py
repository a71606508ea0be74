from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchorch.trace.attribution.counterfactuals import counterfactuals
from benchorch.trace.attribution.gains import Cut, Gains, gains
from benchorch.trace.critical_path.replay import replay
from benchorch.trace.dag import Class, Dag, EdgeKind
from benchorch.trace.events import Lane
from support.random_graphs import Edge, dag_of, dags, lane_dags


def of(dag: Dag) -> Gains:
    return gains(dag)


@settings(deadline=None)
@given(dag=dags() | lane_dags(), data=st.data())
def test_a_gain_is_what_a_replay_of_the_whole_graph_says(dag: Dag, data: st.DataObject) -> None:
    shares = st.sampled_from([0.0, 0.0, 0.3, 1.0])
    drawn = data.draw(st.lists(shares, min_size=dag.edges, max_size=dag.edges))
    cut = np.floor(dag.weight_ns * np.array(drawn, dtype=np.float64)).astype(np.int64)
    times = replay(dag, dag.weight_ns - cut)
    assert of(dag).saved_ns(cut) == dag.makespan_ns - int(times[-1] - times[0])


@settings(deadline=None)
@given(dag=dags() | lane_dags(), seed=st.integers(0, 99), asked=st.integers(0, 30))
def test_many_gains_together_are_each_of_them(dag: Dag, seed: int, asked: int) -> None:
    shares = np.random.default_rng(seed).choice([0.0, 0.3, 1.0], size=(asked, dag.edges))
    cuts = [np.floor(dag.weight_ns * row).astype(np.int64) for row in shares]
    times = [replay(dag, dag.weight_ns - cut) for cut in cuts]
    saved = [dag.makespan_ns - int(one[-1] - one[0]) for one in times]
    assert of(dag).saved_each([Cut.of(cut) for cut in cuts]) == saved


@settings(deadline=None)
@given(dag=dags() | lane_dags(), data=st.data())
def test_without_some_dependencies_the_last_point_of_a_replay_ends_it(
    dag: Dag, data: st.DataObject
) -> None:
    dropped = np.array(
        data.draw(st.lists(st.booleans(), min_size=dag.edges, max_size=dag.edges)), dtype=np.bool_
    )
    times = replay(dag, dropped=dropped)
    saved = dag.makespan_ns - int(times.max() - times[0]) if dropped.any() else 0
    assert of(dag).saved_by_not_waiting(dropped) == saved


@settings(deadline=None)
@given(dag=lane_dags())
def test_i21_host_and_device_alone_are_no_longer_than_both(dag: Dag) -> None:
    lanes = [Lane(process="1", thread="1")]
    lanes += [Lane(process="0", thread=str(n), device=0, stream=n) for n in range(1, 4)]
    saved = counterfactuals(of(dag), lanes)
    assert all(0 <= gain <= dag.makespan_ns for name, gain in saved.items() if name != "sync")
    for name in ("compute", "overhead", "python", "framework"):
        assert saved.get(name, 0) <= saved.get("host", 0)


def test_what_nobody_waits_for_has_to_be_finished_all_the_same() -> None:
    edges = [
        Edge(tail=0, head=1, weight_ns=1, kind=EdgeKind.LAUNCH, label=Class.LAUNCH_LATENCY),
        Edge(tail=1, head=2, weight_ns=99, kind=EdgeKind.WORK, label=Class.GPU_COMPUTE),
        Edge(tail=0, head=3, weight_ns=10, kind=EdgeKind.CHAIN),
        Edge(tail=2, head=3, weight_ns=0, kind=EdgeKind.SYNC),
    ]
    dag = dag_of([0, 1, 100, 100], edges, lane=[-1, 1, 1, 0])
    host, stream = Lane(process="1", thread="1"), Lane(process="0", thread="7", device=0, stream=7)
    saved = counterfactuals(of(dag), [host, stream])
    assert saved["sync"] == 0
    assert saved["device"] == 90


def test_launches_are_compared_with_the_floor_of_the_machine() -> None:
    edges = [
        Edge(tail=0, head=1, weight_ns=10, kind=EdgeKind.LAUNCH, label=Class.LAUNCH_LATENCY),
        Edge(tail=1, head=2, weight_ns=5, kind=EdgeKind.WORK, label=Class.GPU_COMPUTE),
        Edge(tail=2, head=3, weight_ns=2, kind=EdgeKind.STREAM, label=Class.STREAM_GAP),
    ]
    dag = dag_of([0, 10, 15, 17], edges)
    lanes = [Lane(process="1", thread="1")]
    assert counterfactuals(of(dag), lanes)["launch"] == 2
    assert counterfactuals(of(dag), lanes, launch_floor_ns=4.0)["launch"] == 8
