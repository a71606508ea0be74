from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.critical_path.drag import drag, least_over
from benchorch.trace.critical_path.replay import NEVER, replay
from benchorch.trace.critical_path.slack import near_critical, slack
from benchorch.trace.dag import Dag
from support.random_graphs import Edge, dag_of, dags, lane_dags


def makespan_with(dag: Dag, edge: int, weight_ns: int) -> int:
    weights = dag.weight_ns.copy()
    weights[edge] = weight_ns
    times = replay(dag, weights)
    return int(times[-1] - times[0])


@given(dag=dags(most_points=10) | lane_dags(), data=st.data())
def test_i6_what_has_slack_can_be_as_fast_as_it_likes(dag: Dag, data: st.DataObject) -> None:
    for edge in np.flatnonzero(slack(dag) > 0).tolist():
        shorter = data.draw(st.integers(0, int(dag.weight_ns[edge])))
        assert makespan_with(dag, edge, shorter) == dag.makespan_ns


@given(dag=dags())
def test_i6_an_operator_whose_every_edge_has_slack_may_vanish(dag: Dag) -> None:
    spare = slack(dag)
    for owner in set(dag.owner.tolist()):
        its = dag.owner == owner
        if (spare[its] > 0).all():
            times = replay(dag, np.where(its, 0, dag.weight_ns))
            assert times[-1] - times[0] == dag.makespan_ns


@given(dag=dags(most_points=10) | lane_dags(), more_ns=st.integers(0, 200))
def test_i7_lengthening_an_edge_costs_what_exceeds_its_slack(dag: Dag, more_ns: int) -> None:
    spare = slack(dag)
    for edge in range(dag.edges):
        longer = makespan_with(dag, edge, int(dag.weight_ns[edge]) + more_ns)
        assert longer == dag.makespan_ns + max(0, more_ns - int(spare[edge]))


@given(dag=dags() | lane_dags())
def test_i8_drag_is_what_a_replay_without_the_edge_saves(dag: Dag) -> None:
    found = drag(dag).tolist()
    assert found == [dag.makespan_ns - makespan_with(dag, edge, 0) for edge in range(dag.edges)]
    assert (drag(dag) <= dag.weight_ns).all()


@given(dag=dags())
def test_i8_only_what_every_longest_way_shares_has_drag(dag: Dag) -> None:
    for edge in np.flatnonzero(drag(dag)).tolist():
        others = np.arange(dag.edges) != edge
        reached = {0}
        for tail, head in zip(
            dag.tail[others & (slack(dag) == 0)].tolist(),
            dag.head[others & (slack(dag) == 0)].tolist(),
            strict=True,
        ):
            reached |= {head} if tail in reached else set()
        assert dag.points - 1 not in reached


@given(dag=dags())
def test_slack_is_never_negative_and_none_is_on_the_path(dag: Dag) -> None:
    assert (slack(dag) >= 0).all()
    assert dag.edges == 0 or (slack(dag) == 0).any()


def test_a_way_that_leads_nowhere_has_all_the_time_there_is() -> None:
    dead_end = Edge(tail=0, head=1, weight_ns=5)
    dag = dag_of([0, 5, 9], [dead_end, Edge(tail=0, head=2, weight_ns=9)])
    assert slack(dag)[0] > NEVER // 2
    assert slack(dag)[1] == 0
    assert drag(dag).tolist() == [0, 9]


def test_within_a_hundredth_of_the_makespan_counts_as_critical() -> None:
    assert near_critical(np.array([0, 9, 10, 11]), 1_000).tolist() == [True, True, False, False]


@given(
    intervals=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99)), max_size=12
    )
)
def test_the_least_value_over_each_place(intervals: list[tuple[int, int, int]]) -> None:
    columns = np.array(intervals, dtype=np.int64).reshape(-1, 3)
    expected = [
        min((value for first, end, value in intervals if first <= place < end), default=NEVER)
        for place in range(9)
    ]
    assert least_over(*columns.T, 9).tolist() == expected
