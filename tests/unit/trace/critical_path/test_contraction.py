from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.critical_path.contraction import contract, explained
from benchorch.trace.critical_path.path import critical_path, path_along
from benchorch.trace.critical_path.replay import NEVER, replay, steps
from benchorch.trace.critical_path.slack import slack
from benchorch.trace.dag import Dag
from support.random_graphs import Edge, dag_of, dags, lane_dags


@st.composite
def changes(draw: st.DrawFn, dag: Dag) -> dict[str, np.ndarray]:
    edges = {"min_size": dag.edges, "max_size": dag.edges}
    weights = draw(st.lists(st.integers(0, 60), **edges))
    rests = draw(st.lists(st.integers(0, 9), min_size=dag.points, max_size=dag.points))
    dropped = draw(st.lists(st.booleans(), **edges))
    return {
        "weight_ns": np.array(weights, dtype=np.int64),
        "residual_ns": np.array(rests, dtype=np.int64),
        "dropped": np.array(dropped, dtype=np.bool_),
    }


@given(dag=dags() | lane_dags(), data=st.data())
def test_a_contracted_replay_is_the_replay(dag: Dag, data: st.DataObject) -> None:
    contracted = contract(dag)
    times = replay(dag)
    assert contracted.makespan_ns(steps(dag)) == times[-1] - times[0]
    changed = data.draw(changes(dag))
    times = replay(dag, **changed)
    assert contracted.makespan_ns(steps(dag, **changed)) == times[-1] - times[0]


@given(dag=dags() | lane_dags())
def test_its_path_is_the_critical_path(dag: Dag) -> None:
    makespan, edges = contract(dag).longest(steps(dag))
    path = path_along(dag, edges, dag.weight_ns, dag.residual_ns)
    assert makespan == dag.makespan_ns
    for column in dataclasses.fields(path):
        ours, other = getattr(path, column.name), getattr(critical_path(dag), column.name)
        assert ours.tolist() == other.tolist()


@given(dag=dags() | lane_dags(), data=st.data())
def test_the_longest_way_of_a_changed_graph_is_its_makespan(dag: Dag, data: st.DataObject) -> None:
    changed = data.draw(changes(dag))
    makespan, edges = contract(dag).longest(steps(dag, **changed))
    assert int(steps(dag, **changed)[edges].sum()) == makespan
    assert dag.tail[edges[1:]].tolist() == dag.head[edges[:-1]].tolist()


@given(dag=dags() | lane_dags(), data=st.data())
def test_what_has_more_slack_than_is_saved_can_be_left_out(dag: Dag, data: st.DataObject) -> None:
    most = data.draw(st.integers(0, 30))
    spare = slack(dag)
    ratio = data.draw(st.lists(st.floats(0.0, 1.0), min_size=dag.edges, max_size=dag.edges))
    weights = np.floor(dag.weight_ns * np.array(ratio)).astype(np.int64)
    exact = contract(dag).makespan_ns(steps(dag, weights))
    pruned = contract(dag, spare <= most).makespan_ns(steps(dag, weights))
    assert pruned <= exact <= max(pruned, dag.makespan_ns - most - 1)


@given(dag=dags() | lane_dags())
def test_a_chain_has_the_slack_of_its_edges(dag: Dag) -> None:
    contracted = contract(dag)
    spare = np.minimum(contracted.slack, NEVER // 2)
    assert np.repeat(spare, contracted.sizes).tolist() == (
        np.minimum(slack(dag), NEVER // 2)[contracted.edges].tolist()
    )


def test_only_branch_nodes_are_left() -> None:
    chain = [Edge(tail=point, head=point + 1, weight_ns=1) for point in range(9)]
    dag = dag_of(range(10), [*chain, Edge(tail=2, head=6, weight_ns=1)])
    contracted = contract(dag)
    assert contracted.points.tolist() == [0, 2, 6, 9]
    assert contracted.lengths(steps(dag)).tolist() == [2, 4, 1, 3]
    assert contracted.elapsed(contracted.lengths(steps(dag))) == [0, 2, 6, 9]


@given(dag=dags() | lane_dags(), data=st.data())
def test_replays_together_give_the_makespan_of_each(dag: Dag, data: st.DataObject) -> None:
    contracted = contract(dag)
    weights = [data.draw(changes(dag))["weight_ns"] for _ in range(6)]
    length_ns = np.array([contracted.lengths(steps(dag, one)) for one in weights])
    expected = [contracted.makespan_ns(steps(dag, one)) for one in weights]
    assert contracted.makespans_ns(length_ns).tolist() == expected


@given(dag=dags() | lane_dags())
def test_explained_times_are_those_of_a_replay_without_unexplained_time(dag: Dag) -> None:
    found = explained(dag)
    without = replay(dag, residual_ns=np.zeros_like(dag.residual_ns))
    assert found.time_ns.tolist() == without.tolist()
    assert replay(found).tolist() == found.time_ns.tolist()
