from __future__ import annotations

import numpy as np

from benchorch.trace.attribution.layers import folds, modules
from benchorch.trace.attribution.nodes import graph_nodes
from benchorch.trace.attribution.owners import owners
from benchorch.trace.attribution.workloads import OperatorWork
from benchorch.trace.events import NOTHING, Category, Events
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from support.handmade_traces import note, op, trace


def by_module(events: Events, graph: OperatorGraph | None = None) -> list[str]:
    """Of every event the module."""
    owned = owners(events)
    found = modules(events, owned, graph_nodes(events, owned, graph), graph)
    parts = [{} if part == NOTHING else found.shares[part] for part in found.part.tolist()]
    return ["+".join(found.names[row] for row in part) for part in parts]


def starred(events: Events, workloads: dict[int, OperatorWork] | None = None) -> list[str]:
    """Of every event the fold."""
    owned = owners(events)
    by_node = graph_nodes(events, owned)
    found = folds(
        events,
        owned,
        modules(events, owned, by_node),
        by_node,
        workloads or {},
        np.ones(len(events) + 1, dtype=np.bool_),
    )
    parts = [{} if part == NOTHING else found.shares[part] for part in found.part.tolist()]
    return ["+".join(found.names[row] for row in part) for part in parts]


def test_time_belongs_to_the_innermost_module() -> None:
    events = trace(
        note("mod:", 0, 100),
        op("aten::add", 1, 5),
        note("mod:fc", 10, 50),
        op("aten::mm", 12, 40),
        op("aten::mul", 110, 120),
    )
    assert by_module(events) == ["(model)", "(model)", "fc", "fc", ""]


def test_a_graph_knows_the_modules_of_its_nodes() -> None:
    events = trace(
        op("mm_kernel_time", 0, 10, category=Category.NODE),
        op("/encoder/layer.0/Add_kernel_time", 10, 20, category=Category.NODE),
        op("lost_kernel_time", 20, 30, category=Category.NODE),
    )
    nodes = (OperatorNode(name="mm", op="MatMul", module="head"),)
    assert by_module(events, OperatorGraph(name="g", nodes=nodes, source="onnx")) == [
        "head",
        "encoder.layer.0",
        "",
    ]


def test_a_kernel_of_several_modules_is_shared_by_them() -> None:
    events = trace(
        note("mod:", 0, 100),
        note("## Call CompiledFxGraph abc ##", 0, 100),
        op("graph_0_cpp_fused_add_mul_0", 10, 30),
    )
    nodes = tuple(OperatorNode(name=name, op=name, module=f"m.{name}") for name in ("add", "mul"))
    graph = OperatorGraph(name="g", nodes=nodes, source="inductor")
    assert by_module(events, graph) == ["(model)", "(model)", "m.add+m.mul"]


def test_of_a_kernels_nodes_those_without_a_module_leave_their_share_to_the_others() -> None:
    events = trace(op("graph_0_cpp_fused_add_mul_0", 10, 30))
    nodes = (OperatorNode(name="mul", op="mul", module="m"),)
    assert by_module(events, OperatorGraph(name="g", nodes=nodes, source="inductor")) == ["m"]


def layers() -> Events:
    made = []
    for layer in range(2):
        for place, part in enumerate(("query", "key", "norm")):
            start = 1_000 * layer + 100 * place
            made.append(note(f"mod:layers.{layer}.{part}", start, start + 50))
            made.append(op("aten::mm" if part != "norm" else "aten::norm", start + 5, start + 40))
    return trace(made)


def test_layers_and_siblings_of_one_structure_fold() -> None:
    events = layers()
    known = {
        event: OperatorWork(
            op=events.names[events.name[event]], shapes="2x2", dtype="", work=None, duration_ns=1
        )
        for event in range(1, len(events), 2)
    }
    assert set(starred(events, known)) == {"layers.*.{key,query}", "layers.*.norm"}
    assert set(starred(events)) == {"layers.*.query", "layers.*.key", "layers.*.norm"}


def test_without_modules_runs_of_operators_fold() -> None:
    start = [op("aten::embedding", 0, 10)]
    block = [
        op(name, 10 + 30 * n + 10 * place, 18 + 30 * n + 10 * place)
        for n in range(3)
        for place, name in enumerate(("aten::mm", "aten::add", "aten::relu"))
    ]
    inner = [op("aten::copy_", 11, 12)]
    events = trace(start, block, inner)
    run = "3 times aten::mm, aten::add, aten::relu"
    assert starred(events) == ["", *[run] * 9, run]


def test_nodes_without_modules_fold_by_their_numbers() -> None:
    events = trace(
        *(
            op(f"linear_{n}_kernel_time", 10 * n, 10 * n + 5, category=Category.NODE)
            for n in range(3)
        )
    )
    assert starred(events) == ["linear_*"] * 3
