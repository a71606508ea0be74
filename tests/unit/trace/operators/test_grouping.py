from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.operators.graph import OperatorGraph, OperatorNode, plain_op
from benchorch.trace.operators.grouping import by_pattern

OPS = ("MatMul", "Add", "Softmax", "Erf", "Mul", "Div", "LayerNormalization", "Reshape", "Relu")


def graph(*nodes):
    """Each node is its name, operator, inputs and module, as words."""
    made = [
        OperatorNode(name=name, op=op, inputs=tuple(reads.split()), module=module)
        for name, op, reads, module in nodes
    ]
    return OperatorGraph(name="g", nodes=tuple(made), source="onnx")


@st.composite
def graphs(draw):
    nodes = []
    for index in range(draw(st.integers(0, 16))):
        reads = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        module = draw(st.sampled_from(["", "a", "a.b", "c"]))
        op = draw(st.sampled_from(OPS))
        nodes.append((f"n{index}", op, " ".join(f"n{read}" for read in sorted(reads)), module))
    return graph(*nodes)


def check(whole, grouping):
    held = [name for names in grouping.members.values() for name in names]
    assert sorted(held) == sorted(node.name for node in whole.nodes)
    seen = set()
    for node in grouping.graph.nodes:
        assert set(node.inputs) <= seen  # in a topological order, so without a cycle
        seen.add(node.name)
    group_of = {name: group for group, names in grouping.members.items() for name in names}
    between = {
        (group_of[read], group_of[node.name]) for node in whole.nodes for read in node.inputs
    }
    kept = {(read, node.name) for node in grouping.graph.nodes for read in node.inputs}
    assert kept == {(tail, head) for tail, head in between if tail != head}


@given(graphs())
def test_groups_hold_every_node_once_and_make_no_cycle(whole):
    check(whole, by_pattern(whole))


def kinds(grouping):
    return {
        node.op: grouping.members[node.name]
        for node in grouping.graph.nodes
        if len(grouping.members[node.name]) > 1
    }


def test_a_gelu_is_one_group_although_its_input_is_read_twice():
    found = by_pattern(
        graph(
            ("x", "MatMul", "", ""),
            ("bias", "Add", "x", ""),
            ("div", "Div", "bias", ""),
            ("erf", "Erf", "div", ""),
            ("one", "Add", "erf", ""),
            ("mul", "Mul", "bias one", ""),
            ("half", "Mul", "mul", ""),
        )
    )
    assert kinds(found) == {"gelu": ("bias", "div", "erf", "one", "mul", "half")}


def test_attention_takes_both_products_and_leaves_the_projections():
    found = by_pattern(
        graph(
            *((f"{which}", "MatMul", "", "") for which in "qkv"),
            *((f"{which}r", "Reshape", which, "") for which in "qkv"),
            ("kt", "Transpose", "kr", ""),
            ("scores", "MatMul", "qr kt", ""),
            ("scale", "Div", "scores", ""),
            ("mask", "Add", "scale", ""),
            ("soft", "Softmax", "mask", ""),
            ("mix", "MatMul", "soft vr", ""),
            ("out", "Reshape", "mix", ""),
        )
    )
    assert kinds(found)["attention"] == ("kt", "scores", "scale", "mask", "soft", "mix")


def test_a_softmax_without_products_is_no_attention():
    assert kinds(by_pattern(graph(("a", "Relu", "", ""), ("s", "Softmax", "a", "")))) == {}


def test_a_residual_sum_belongs_to_its_normalization_and_what_is_around_it_does_not():
    found = by_pattern(
        graph(
            ("x", "Relu", "", ""),
            ("up", "Gemm", "x", ""),
            ("sum", "Add", "x up", ""),
            ("norm", "LayerNormalization", "sum", ""),
        )
    )
    assert kinds(found) == {"add-normalization": ("sum", "norm")}


def test_what_others_read_too_is_not_taken_in():
    found = by_pattern(
        graph(
            ("sum", "Add", "", ""),
            ("norm", "LayerNormalization", "sum", ""),
            ("other", "Relu", "sum", ""),
        )
    )
    assert kinds(found) == {}


def test_operators_of_every_exporter_are_the_same():
    assert plain_op("aten.add.Tensor") == plain_op("aten::add") == plain_op("Add") == "add"
    assert plain_op("<lambda>") == "<lambda>"
