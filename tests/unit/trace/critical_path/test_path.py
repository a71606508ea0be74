from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given

from benchorch.trace.critical_path.path import critical_path
from benchorch.trace.dag import CLASSES, NOBODY, Class, Dag, EdgeKind, Tier
from support.graph_invariants import check
from support.random_graphs import FEWER, Edge, dag_of, dags, lane_dags


def whole(dag: Dag) -> tuple[int, int]:
    return int(dag.time_ns[0]), int(dag.time_ns[-1])


@FEWER
@given(dag=dags() | lane_dags())
def test_i2_the_path_is_as_long_as_the_makespan(dag: Dag) -> None:
    assert critical_path(dag).length_ns == dag.makespan_ns


@FEWER
@given(dag=dags() | lane_dags())
def test_i3_the_path_tiles_the_window_in_order(dag: Dag) -> None:
    path = critical_path(dag)
    edges = [0, *np.cumsum(path.duration_ns).tolist()]
    assert (path.start_ns - dag.time_ns[0]).tolist() == edges[:-1]
    assert edges[-1] == dag.makespan_ns


@FEWER
@given(dag=dags() | lane_dags())
def test_i1_to_i5_hold(dag: Dag) -> None:
    assert all(check(dag, critical_path(dag), whole(dag)).values())


@FEWER
@given(dag=dags())
def test_a_residual_follows_its_edge_and_belongs_to_nobody(dag: Dag) -> None:
    path = critical_path(dag)
    rest = path.residual
    assert (path.owner[rest] == NOBODY).all()
    assert (path.tier[rest] == Tier.UNEXPLAINED).all()
    assert {CLASSES[label] for label in path.label[rest]} <= {Class.UNEXPLAINED}
    assert (path.duration_ns[rest] == dag.residual_ns[dag.head[path.edge[rest]]]).all()
    assert (path.duration_ns[~rest] == dag.weight_ns[path.edge[~rest]]).all()
    assert (path.owner[~rest] == dag.owner[path.edge[~rest]]).all()


def diamond(first: Edge, second: Edge) -> Dag:
    """From the source over point 1 or 2, which tie, to the sink."""
    ends = [Edge(tail=1, head=3, weight_ns=5), Edge(tail=2, head=3, weight_ns=5)]
    return dag_of([0, 5, 5, 10], [first, second, *ends])


def test_a_tie_goes_to_the_lower_event() -> None:
    dag = diamond(Edge(tail=0, head=1, weight_ns=5), Edge(tail=0, head=2, weight_ns=5))
    assert dag.tail[critical_path(dag).edge].tolist() == [0, 1]
    swapped = dataclasses.replace(dag, event=dag.event[[0, 2, 1, 3]])
    assert dag.tail[critical_path(swapped).edge].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"kind": EdgeKind.WORK}, {"kind": EdgeKind.LAUNCH}),
        ({"kind": EdgeKind.LAUNCH}, {"kind": EdgeKind.STREAM}),
        ({"kind": EdgeKind.STREAM}, {"kind": EdgeKind.SYNC}),
        ({"kind": EdgeKind.SYNC}, {"kind": EdgeKind.WORK, "tier": Tier.INFERRED}),
    ],
)
def test_a_tie_goes_to_the_better_known_kind(better: dict[str, int], worse: dict[str, int]) -> None:
    begin = [Edge(tail=0, head=1, weight_ns=5), Edge(tail=0, head=2, weight_ns=5)]
    for kinds in ((better, worse), (worse, better)):
        ends = [Edge(tail=1 + n, head=3, weight_ns=5, **kind) for n, kind in enumerate(kinds)]
        dag = dag_of([0, 5, 5, 10], [*begin, *ends])
        assert dag.kind[critical_path(dag).edge[-1]] == better["kind"]


def test_a_point_without_time_or_edges_has_an_empty_path() -> None:
    dag = dag_of([7], [])
    assert len(critical_path(dag)) == 0
    assert all(check(dag, critical_path(dag), whole(dag)).values())


def broken(dag: Dag, **changes: np.ndarray) -> set[str]:
    changed = dataclasses.replace(dag, **changes)
    return {
        name[:2]
        for name, holds in check(changed, critical_path(dag), whole(changed)).items()
        if not holds
    }


def test_what_does_not_hold_is_named() -> None:
    dag = diamond(Edge(tail=0, head=1, weight_ns=5), Edge(tail=0, head=2, weight_ns=3))
    assert broken(dag) == set()
    assert broken(dag, weight_ns=dag.weight_ns - 1) == {"I1"}
    assert broken(dag, residual_ns=-dag.residual_ns) == {"I1", "I5"}
    assert broken(dag, weight_ns=dag.weight_ns + 9) == {"I1", "I5"}
    assert broken(dag, time_ns=dag.time_ns * 2) == {"I1", "I2", "I3"}
    assert broken(dag, head=dag.head[::-1]) == {"I1", "I5"}
