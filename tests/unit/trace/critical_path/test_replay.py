from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.critical_path.replay import contract, steps
from benchorch.trace.dag import CLASSES, Class, Dag, EdgeKind
from support.graph_checks import replay
from support.random_graphs import FEWER, Edge, dag_of, dags, lane_dags


def makespan(dag: Dag, weight_ns: np.ndarray, **changes: np.ndarray) -> int:
    times = replay(dag, weight_ns, **changes)
    return int(times[-1] - times[0])


def scaled(weight_ns: np.ndarray, chosen: np.ndarray, ratio: float) -> np.ndarray:
    return np.where(chosen, np.rint(weight_ns * ratio).astype(np.int64), weight_ns)


def selections(dag: Dag) -> st.SearchStrategy[np.ndarray]:
    flags = st.lists(st.booleans(), min_size=dag.edges, max_size=dag.edges)
    return flags.map(lambda drawn: np.array(drawn, dtype=np.bool_))


@FEWER
@given(dag=dags() | lane_dags())
def test_i1_a_replay_without_changes_gives_every_observed_time(dag: Dag) -> None:
    assert replay(dag).tolist() == dag.time_ns.tolist()


@given(dag=dags(), data=st.data())
def test_i9_faster_is_never_slower_and_slower_never_faster(dag: Dag, data: st.DataObject) -> None:
    chosen = data.draw(selections(dag))
    ratio = data.draw(st.floats(0.0, 1.0))
    assert makespan(dag, scaled(dag.weight_ns, chosen, ratio)) <= dag.makespan_ns
    assert makespan(dag, scaled(dag.weight_ns, chosen, 1.0)) == dag.makespan_ns
    assert makespan(dag, scaled(dag.weight_ns, chosen, 1.0 + ratio)) >= dag.makespan_ns


@given(dag=dags(), data=st.data(), share=st.floats(0.0, 1.0))
def test_i10_a_mixture_of_two_changes_gains_no_more_than_they_do(
    dag: Dag, data: st.DataObject, share: float
) -> None:
    one, other = (
        scaled(dag.weight_ns, data.draw(selections(dag)), data.draw(st.floats(0.0, 3.0)))
        for _ in range(2)
    )
    mixed = np.rint(share * one + (1.0 - share) * other).astype(np.int64)
    bound = share * makespan(dag, one) + (1.0 - share) * makespan(dag, other)
    assert makespan(dag, mixed) <= bound + 0.5 * dag.edges + 1.0


@given(dag=lane_dags())
def test_i14_no_lane_does_more_than_the_makespan_holds(dag: Dag) -> None:
    work = dag.kind == EdgeKind.WORK
    lanes = dag.lane[dag.head]
    for lane in set(lanes[work].tolist()):
        assert dag.weight_ns[work & (lanes == lane)].sum() <= dag.makespan_ns


@given(dag=lane_dags())
def test_i14_the_dataflow_alone_takes_no_longer_than_the_makespan(dag: Dag) -> None:
    no_residual = np.zeros_like(dag.residual_ns)
    streams = dag.kind == EdgeKind.STREAM
    assert makespan(dag, dag.weight_ns, residual_ns=no_residual, dropped=streams) <= (
        dag.makespan_ns
    )


@given(dag=lane_dags())
def test_i21_host_and_device_alone_bound_the_makespan_from_both_sides(dag: Dag) -> None:
    device = np.isin(dag.label, [CLASSES.index(Class.GPU_COMPUTE), CLASSES.index(Class.STREAM_GAP)])
    without_host = makespan(dag, np.where(device, dag.weight_ns, 0))
    without_device = makespan(dag, np.where(device, 0, dag.weight_ns))
    assert max(without_host, without_device) <= dag.makespan_ns <= without_host + without_device


def test_a_dependency_that_is_dropped_no_longer_holds_up() -> None:
    chain = Edge(tail=0, head=2, weight_ns=1)
    order = Edge(tail=1, head=2, weight_ns=0)
    dag = dag_of([0, 10, 10], [Edge(tail=0, head=1, weight_ns=10), chain, order])
    assert replay(dag, dropped=np.array([False, False, True])).tolist() == [0, 10, 1]


def test_the_last_dependency_of_a_point_stays_as_an_order_without_weight() -> None:
    dag = dag_of(
        [0, 10, 25], [Edge(tail=0, head=1, weight_ns=10), Edge(tail=1, head=2, weight_ns=15)]
    )
    assert replay(dag, dropped=np.array([False, True])).tolist() == [0, 10, 10]


@given(dag=dags())
def test_residuals_can_be_taken_away(dag: Dag) -> None:
    times = replay(dag, residual_ns=np.zeros_like(dag.residual_ns))
    weights_alone = dataclasses.replace(
        dag, time_ns=times, residual_ns=np.zeros_like(dag.residual_ns)
    )
    assert replay(weights_alone).tolist() == times.tolist()
    assert (times <= dag.time_ns).all()


@given(dag=dags() | lane_dags(), data=st.data())
def test_branch_nodes_come_when_all_points_are_replayed_one_after_another(
    dag: Dag, data: st.DataObject
) -> None:
    weight_ns = scaled(dag.weight_ns, data.draw(selections(dag)), data.draw(st.floats(0.0, 3.0)))
    dropped = data.draw(selections(dag))
    kept = data.draw(st.lists(st.integers(0, dag.points - 1), max_size=3))
    graph = contract(dag, kept)
    expected = (replay(dag, weight_ns, dropped=dropped) - dag.time_ns[0])[graph.points]
    length_ns = graph.lengths(steps(dag, weight_ns, None, dropped))
    assert graph.elapsed(length_ns).tolist() == expected.tolist()
    observed_ns = dag.time_ns[graph.points] - dag.time_ns[0]
    assert graph.elapsed(length_ns, observed_ns).tolist() == expected.tolist()
    assert graph.elapsed(length_ns, expected).tolist() == expected.tolist()
