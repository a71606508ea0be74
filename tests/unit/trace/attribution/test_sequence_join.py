"""Eager traces of any origin, joined to a model's graph by order and kind."""

from __future__ import annotations

from benchorch.trace.analysis import analyze
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from support.handmade_traces import op, trace

GRAPH = OperatorGraph(
    name="main",
    nodes=(
        OperatorNode(name="x", op="Input"),
        OperatorNode(name="fc", op="MatMul", inputs=("x",)),
        OperatorNode(name="bias", op="Add", inputs=("fc",)),
        OperatorNode(name="act", op="Relu", inputs=("bias",)),
        OperatorNode(name="out", op="Gemm", inputs=("act",)),
        OperatorNode(name="prob", op="Softmax", inputs=("out",)),
    ),
    source="onnx",
)


def passes(names: tuple[str, ...], count: int = 3) -> list:
    made = []
    for at in range(count * len(names)):
        name = names[at % len(names)]
        made += [op(name, 100 * at, 100 * at + 90)]
        if name == "aten::linear":
            made += [op("aten::addmm", 100 * at + 10, 100 * at + 80)]
    return made


def test_operators_join_nodes_in_order_and_a_bias_is_part_of_its_product() -> None:
    names = ("aten::linear", "aten::relu", "aten::linear", "aten::softmax")
    analysis = analyze(trace(passes(names)), graph=GRAPH)
    assert analysis.matched_ratio == 1
    rows = {row.name: row for row in analysis.tables["graph nodes"]}
    assert rows["act"].total_ns == 3 * 90
    assert rows["fc"].total_ns + rows["bias"].total_ns == rows["out"].total_ns == 3 * 90


def test_another_model_is_not_joined() -> None:
    names = ("aten::conv2d", "aten::batch_norm", "aten::max_pool2d")
    found = analyze(trace(passes(names)), graph=GRAPH)
    assert found.matched_ratio == 0
    assert "No node of the model" in " ".join(found.warnings)


def test_a_training_step_joins_its_forward_pass_and_not_the_sums_of_gradients() -> None:
    layers = [
        ("fc1", "MatMul", "x"),
        ("b1", "Add", "fc1"),
        ("act1", "Relu", "b1"),
        ("fc2", "MatMul", "act1"),
        ("b2", "Add", "fc2"),
        ("act2", "Relu", "b2"),
        ("sum", "Add", "act1 act2"),
    ]
    nodes = [OperatorNode(name=name, op=op, inputs=tuple(of.split())) for name, op, of in layers]
    graph = OperatorGraph(name="main", nodes=tuple(nodes), source="onnx")
    gradient = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    forward = ("aten::linear", "aten::relu", "aten::linear", "aten::relu", "aten::add")
    made = []
    for at, name in enumerate((*forward, gradient, gradient, gradient, gradient) * 3):
        made.append(op(name, 100 * at, 100 * at + 90))
        if name == gradient:
            made.append(op("aten::add_", 100 * at + 10, 100 * at + 80))
    found = analyze(trace(made), graph=graph)
    rows = {row.name: row.count for row in found.tables["graph nodes"][:-1]}
    assert rows == {name: 3 for name, _, _ in layers}
