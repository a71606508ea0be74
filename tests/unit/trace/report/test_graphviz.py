"""Pictures of a branching block in Graphviz's language."""

from __future__ import annotations

import re
from itertools import pairwise

from benchorch.trace.attribution.tables import EntityRow
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from benchorch.trace.report.graphviz import pictures
from support.analyzed_traces import HOSTILE

OPS = {
    "q": ("MatMul", ()),
    "scores": ("MatMul", ("q",)),
    "act": ("Relu", ("q",)),
    "sum": ("Mul", ("scores", "act")),
    "fc": ("MatMul", ("sum",)),
    "bias": ("Add", ("fc",)),
}
TIMES = {"q": 100, "scores": 300, "act": 100, "sum": 0, "fc": 400, "bias": 100}


def drawn(ops, times):
    nodes = tuple(OperatorNode(name=name, op=op, inputs=of) for name, (op, of) in ops.items())
    rows = {
        name: EntityRow(name=name, count=1, total_ns=ns, on_path_ns=ns)
        for name, ns in times.items()
    }
    return pictures(OperatorGraph(name="main", nodes=nodes, source="onnx"), rows, 1_000)


def edges(text):
    """Attributes of each edge, by the operators' tooltips."""
    name = dict(re.findall(r'(n\d+) \[label=.* tooltip="(.*?)" fill', text))
    found = re.findall(r"(n\d+) -> (n\d+) \[(.*)\]", text)
    return {(name[tail], name[head]): said for tail, head, said in found}


def test_the_longest_chain_is_red_and_branches_have_their_shares() -> None:
    said = edges(drawn(OPS, TIMES)["graph"])
    assert set(said) == {(of, name) for name, (_, reads) in OPS.items() for of in reads}
    red = {edge for edge, attributes in said.items() if "#8b0000" in attributes}
    chain = ["q", "scores", "sum", "fc", "bias"]
    assert red == set(pairwise(chain))
    assert 'label="75 %"' in said["q", "scores"]
    assert 'label="25 %"' in said["q", "act"]
    assert 'label=""' in said["sum", "fc"]


def test_a_group_has_the_time_of_all_its_operators() -> None:
    text = drawn(OPS, TIMES)["graph_grouped"]
    (label,) = re.findall(r'label="(linear.*?)"', text)
    assert label == "linear\\n500 ns, 50 % of the path"


def test_names_are_no_markup() -> None:
    ops = {name: (name, HOSTILE[at - 1 : at]) for at, name in enumerate(HOSTILE)}
    for text in drawn(ops, {}).values():
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
        assert re.fullmatch(r"[\w\s\[\]{}=>\"-]+", bare)
