from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.operators.branches import branches, dataflow_path
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode


def graph(**inputs: str) -> OperatorGraph:
    """Nodes by name, each with the names it reads."""
    nodes = [
        OperatorNode(name=name, op="op", inputs=tuple(reads.split()))
        for name, reads in inputs.items()
    ]
    return OperatorGraph(name="g", nodes=tuple(nodes), source="onnx")


ATTENTION = graph(x="", q="x", k="x", v="x", qk="q k", s="qk", out="s v", y="out")


def test_the_longest_chain_of_data_limits_every_number_of_lanes() -> None:
    times = {"x": 1, "q": 5, "k": 3, "v": 20, "qk": 2, "s": 2, "out": 4}
    assert dataflow_path(ATTENTION, times) == ("x", "v", "out", "y")


def test_a_graph_without_nodes_has_an_empty_path() -> None:
    assert dataflow_path(graph(), {}) == ()
    assert branches(graph(), {}) == ()


def test_branches_lie_between_a_fork_and_where_all_of_them_meet() -> None:
    times = {"q": 5, "k": 3, "v": 20, "qk": 2, "s": 2}
    upper, lower = branches(ATTENTION, times)
    assert (upper.fork, upper.join) == ("x", "out")
    assert upper.nodes == ("q", "k", "qk", "s")
    assert (upper.total_ns, upper.longest_ns, upper.slack_ns) == (12, 9, 11)
    assert lower.nodes == ("v",)
    assert (lower.slack_ns, lower.on_path, upper.on_path) == (0, True, False)
    assert upper.share_ratio + lower.share_ratio == pytest.approx(1)


def test_a_residual_connection_is_no_branch() -> None:
    assert branches(graph(x="", block="x", more="block", sum="x more"), {"block": 5}) == ()


def test_a_fork_in_a_branch_names_the_fork_around_it() -> None:
    nested = graph(x="", a="x", b1="a", b2="a", c="b1 b2", d="x", y="c d")
    found = branches(nested, {})
    assert [(one.fork, one.join, one.parent) for one in found] == [
        ("x", "y", ""),
        ("x", "y", ""),
        ("a", "c", "x"),
        ("a", "c", "x"),
    ]


def test_ways_that_never_meet_join_where_the_graph_ends() -> None:
    heads = branches(graph(x="", first="x", second="x"), {"first": 3, "second": 1})
    assert [one.join for one in heads] == ["", ""]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[OperatorGraph, dict[str, int]]:
    count = draw(st.integers(1, 9))
    nodes = []
    for number in range(count):
        reads = draw(st.sets(st.integers(0, max(number - 1, 0)), max_size=3)) if number else set()
        inputs = tuple(f"n{one}" for one in sorted(reads))
        nodes.append(OperatorNode(name=f"n{number}", op="op", inputs=inputs))
    times = {f"n{number}": draw(st.integers(0, 20)) for number in range(count)}
    return OperatorGraph(name="g", nodes=tuple(nodes), source="onnx"), times


def ways(drawn: OperatorGraph, start: str) -> list[list[str]]:
    """Every way from a node to an end, by brute force."""
    after = [node.name for node in drawn.nodes if start in node.inputs]
    return [[start, *rest] for one in after for rest in ways(drawn, one)] or [[start]]


@given(graphs())
def test_no_chain_is_longer_than_the_dataflow_path(
    drawn: tuple[OperatorGraph, dict[str, int]],
) -> None:
    graph_, times = drawn
    every = [way for node in graph_.nodes for way in ways(graph_, node.name)]
    longest = max(sum(times[name] for name in way) for way in every)
    assert sum(times[name] for name in dataflow_path(graph_, times)) == longest


@given(graphs())
def test_every_way_from_a_fork_goes_through_its_join(
    drawn: tuple[OperatorGraph, dict[str, int]],
) -> None:
    graph_, times = drawn
    found = branches(graph_, times)
    for fork, parts in itertools.groupby(found, key=lambda one: one.fork):
        listed = list(parts)
        assert len(listed) >= 2
        inside = [name for one in listed for name in one.nodes]
        assert len(inside) == len(set(inside))
        for way in ways(graph_, fork):
            between = way[1 : way.index(listed[0].join)] if listed[0].join else way[1:]
            assert set(between) <= set(inside)
        assert min(one.slack_ns for one in listed) == 0
