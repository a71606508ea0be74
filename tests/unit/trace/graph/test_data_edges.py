"""Runs of ONNX Runtime: data between nodes, threads of its pool, and its executor."""

from __future__ import annotations

from dataclasses import replace

from benchorch.trace.dag import Class, EdgeKind
from benchorch.trace.events import Category
from benchorch.trace.graph.build import build_dag
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from support.graph_checks import assert_sound, between, into, point, spent
from support.handmade_traces import Made, note, op, trace

GRAPH = OperatorGraph(
    name="g",
    nodes=(
        OperatorNode(name="left", op="MatMul"),
        OperatorNode(name="right", op="MatMul"),
        OperatorNode(name="folded", op="Identity", inputs=("right",)),
        OperatorNode(name="join", op="Add", inputs=("left", "folded")),
    ),
    source="onnx",
)


def node(name: str, start_ns: int, end_ns: int, lane: str = "main") -> Made:
    return op(name, start_ns, end_ns, lane=lane, category=Category.NODE)


def session(name: str, start_ns: int, end_ns: int) -> Made:
    return op(name, start_ns, end_ns, category=Category.SESSION)


def parallel(shift_ns: int = 0) -> list[Made]:
    """Two branches, the right one on a thread of the pool, which also joins them."""
    rows = [
        session("model_run", 0, 1000),
        session("SequentialExecutor::Execute", 10, 990),
        node("left", 20, 300),
        node("right", 50, 600, "pool"),
        node("join", 640, 700, "pool"),
    ]
    return [
        replace(row, start_ns=row.start_ns + shift_ns, end_ns=row.end_ns + shift_ns) for row in rows
    ]


def test_consumers_come_after_producers_also_through_nodes_that_did_not_run() -> None:
    dag = build_dag(trace(parallel()), graph=GRAPH)
    assert_sound(dag)
    tails = [edge[:2] for edge in into(dag, point(dag, 4, end=False), EdgeKind.DATA)]
    assert sorted(tails) == [(2, True), (3, True)]


def test_every_run_has_its_own_data() -> None:
    dag = build_dag(trace(parallel(), parallel(2000)), graph=GRAPH)
    assert_sound(dag)
    assert (dag.kind == EdgeKind.DATA).sum() == 4
    tails = {event for event, *_ in into(dag, point(dag, 9, end=False), EdgeKind.DATA)}
    assert tails == {7, 8}


def test_the_executor_waits_for_the_threads_of_its_pool() -> None:
    dag = build_dag(trace(parallel()), graph=GRAPH)
    end = point(dag, 1, end=True)
    assert into(dag, end, EdgeKind.JOIN) == [(4, True, 290)]
    assert into(dag, end, EdgeKind.CHAIN) == [(2, True, 290)]
    assert not dag.residual_ns.any()
    assert spent(dag) == {
        Class.CPU_COMPUTE: 550 + 60,
        Class.CPU_FRAMEWORK: 10 + 40 + 40 + 290 + 10,
    }


def test_nodes_that_took_less_than_the_clock_shows_keep_their_order() -> None:
    """All in the same microsecond, the consumer on the thread that comes first."""
    rows = [
        session("model_run", 0, 10),
        node("join", 5, 5, "a pool"),
        node("left", 5, 5, "b pool"),
        node("right", 5, 5, "c pool"),
    ]
    dag = build_dag(trace(rows), graph=GRAPH)
    assert_sound(dag)
    assert "backward_edges" not in dag.repairs
    join = point(dag, 1, end=False)
    for producer in (2, 3):
        (edge,) = between(dag, point(dag, producer, end=True), join)
        assert edge[0] is EdgeKind.DATA


def test_a_graph_with_none_of_the_nodes_adds_nothing() -> None:
    dag = build_dag(trace(note("step", 0, 10), op("aten::mm", 1, 5)), graph=GRAPH)
    assert_sound(dag)
    assert not (dag.kind == EdgeKind.DATA).any()
