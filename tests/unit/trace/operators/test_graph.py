"""A user's library of groups: what is grouped, hidden, numbered and how it is drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.errors import TraceError
from benchorch.trace.operators.graph import Library, OperatorGraph, OperatorNode, read_library
from benchorch.trace.operators.grouping import by_pattern
from benchorch.trace.report.graphviz import pictures

FILE = """
groups:
  - {name: projection, seeds: [MatMul], after: [aten.add.Tensor, Cast], most: {Add: 1}}
hidden: [Shape, Cast]
numbers: {3: sum, 8: act}
rankdir: LR
"""
OPS = {
    "fc": ("MatMul", ()),
    "cast": ("Cast", ("fc",)),
    "sum": ("Add", ("cast",)),
    "act": ("Relu", ("sum",)),
}
GRAPH = OperatorGraph(
    name="g",
    nodes=tuple(OperatorNode(name=name, op=op, inputs=of) for name, (op, of) in OPS.items()),
    source="onnx",
)


def read(tmp_path: Path, text: str, name: str = "groups.yaml") -> Library:
    path = tmp_path / name
    path.write_text(text)
    return read_library(path)


def test_operators_are_grouped_hidden_numbered_and_drawn_as_the_file_says(tmp_path: Path) -> None:
    graph = replace(GRAPH, library=read(tmp_path, FILE))
    found = by_pattern(graph)
    assert found.members == {"projection: fc": ("fc", "sum"), "act": ("act",)}
    assert found.numbered == {3: "projection: fc", 8: "act"}
    drawn = pictures(graph, {}, 1_000)["graph_grouped"]
    assert "rankdir=LR" in drawn
    assert 'tooltip="op_id 8, act"' in drawn


def test_without_numbers_nodes_are_counted_by_their_first_operator(tmp_path: Path) -> None:
    text = '{"groups": [{"name": "outer", "seeds": ["relu"], "before": ["add"]}]}'
    graph = replace(GRAPH, library=read(tmp_path, text, "groups.json"))
    assert by_pattern(graph).numbered == {0: "fc", 1: "cast", 2: "outer: sum"}


def test_a_number_of_no_operator_is_refused(tmp_path: Path) -> None:
    graph = replace(GRAPH, library=read(tmp_path, "numbers: {0: gone}"))
    with pytest.raises(TraceError, match="no operator of the model is called gone"):
        by_pattern(graph)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("groups: [{seeds: [add]}]", "missing required field `name`"),
        ("groups: [{name: a, seeds: [add], befor: [mul]}]", "unknown field `befor`"),
        ("rankdir: XY", "Invalid enum value 'XY'"),
        ("numbers: {-1: a}", ">= 0"),
        ("groups: [", "no library of groups"),
        ("", "no library of groups"),
    ],
)
def test_a_file_that_is_no_library_is_refused_with_its_name(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(TraceError, match=said) as refused:
        read(tmp_path, text)
    assert "groups.yaml" in str(refused.value)
