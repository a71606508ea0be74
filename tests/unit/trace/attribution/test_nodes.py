from __future__ import annotations

from collections import Counter

from benchorch.trace.attribution.nodes import graph_nodes
from benchorch.trace.attribution.owners import owners
from benchorch.trace.events import NOTHING, Category, Events
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from benchorch.trace.operators.provenance import Provenance
from support.handmade_traces import call, kernel, note, op, trace


def graph(*nodes: OperatorNode) -> OperatorGraph:
    return OperatorGraph(name="g", nodes=nodes, source="export")


def shares(events: Events, *arguments: object) -> list[dict[str, float]]:
    """Of every event the nodes it did the work of, with their shares."""
    found = graph_nodes(events, owners(events), *arguments)
    parts = [{} if part == NOTHING else found.shares[part] for part in found.part.tolist()]
    return [{found.names[row]: share for row, share in part.items()} for part in parts]


def test_a_session_names_its_nodes() -> None:
    events = trace(
        op("model_run", 0, 100, category=Category.SESSION),
        op("conv", 10, 50, category=Category.NODE),
        op("mm/MatMulAddFusion", 50, 80, category=Category.NODE),
        op("fused mm", 80, 90, category=Category.NODE),
    )
    assert shares(events) == [{}, {"conv": 1}, {"mm/MatMulAddFusion": 1}, {"fused mm": 1}]
    known = graph(OperatorNode(name="mm", op="MatMul"), OperatorNode(name="conv", op="Conv"))
    assert shares(events, known) == [{}, {"conv": 1}, {"mm": 1}, {"mm": 1}]


def test_eager_operators_are_the_graphs_in_the_order_of_each_module() -> None:
    known = graph(
        OperatorNode(name="linear", op="aten.linear.default", module="fc"),
        OperatorNode(name="add", op="aten.add.Tensor", module="fc"),
        OperatorNode(name="add_1", op="aten.add.Tensor", module="fc"),
        OperatorNode(name="relu", op="aten.relu.default", module=""),
    )
    events = trace(
        note("mod:", 0, 100),
        note("mod:fc", 5, 80),
        op("aten::linear", 10, 30),
        op("aten::addmm", 12, 28),
        op("aten::add", 40, 50),
        op("aten::add", 52, 60),
        op("aten::add", 62, 70),  # the graph knows no third one
        op("aten::relu", 85, 95),
        call("cudaLaunchKernel", 86, 88, correlation=1),
        kernel("relu_kernel", 100, 120, 1),
    )
    assert shares(events, known) == [
        {},
        {},
        *[{"linear": 1}] * 2,
        {"add": 1},
        {"add_1": 1},
        {},
        *[{"relu": 1}] * 3,
    ]


def compiled(start: int) -> list:
    return [
        note("## Call CompiledFxGraph abc ##", start, start + 100),
        op("graph_0_cpp_fused_add_gelu_0", start + 10, start + 30),
        op("aten::addmm", start + 30, start + 60),
        op("aten::copy_", start + 35, start + 40),
        op("graph_0_cpp_fused_add_gelu_0", start + 60, start + 90),
    ]


def test_a_compiled_kernel_is_shared_by_what_it_was_made_of() -> None:
    provenance = Provenance(
        calls={"cpp_fused_add_gelu_0": (("a", "b"), ("c",)), "addmm": (("mm",),)}
    )
    sizes = {"a": "float32[30]", "b": "float32[10]", "c": "float32[1]", "mm": ""}
    known = graph(
        *(OperatorNode(name=n, op=n, attributes={"shape": size}) for n, size in sizes.items())
    )
    events = trace(compiled(0), compiled(200))
    one_call = [{}, {"a": 0.75, "b": 0.25}, {"mm": 1}, {"mm": 1}, {"c": 1}]
    assert shares(events, known, [provenance]) == one_call * 2
    equal = shares(events, None, [provenance])
    assert equal[1] == {"a": 0.5, "b": 0.5}


def test_without_provenance_a_kernels_name_says_its_operators() -> None:
    found = shares(trace(compiled(0)))
    assert found[1] == {"add": 0.5, "gelu": 0.5}
    assert found[2] == found[3] == {"addmm": 1}


def test_provenance_of_more_graphs_than_were_called_is_of_nobody_knows_which() -> None:
    known = Provenance(calls={"cpp_fused_add_gelu_0": (("a",),)})
    found = shares(trace(compiled(0)), None, [known, known])
    assert found[1] == {"add": 0.5, "gelu": 0.5}


def test_a_node_that_was_called_twice_happened_twice() -> None:
    provenance = Provenance(calls={"addmm": (("mm",),)})
    events = trace(compiled(0), compiled(200))
    found = graph_nodes(events, owners(events), None, [provenance])
    row = found.names.index("mm")
    instances = [
        found.instance[event]
        for event in range(len(events))
        if found.part[event] != NOTHING and row in found.shares[found.part[event]]
    ]
    assert Counter(instances) == {2: 2, 7: 2}
