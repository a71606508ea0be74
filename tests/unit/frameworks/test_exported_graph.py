"""Operator graphs as they are read from ONNX files and exported programs."""

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from benchorch.errors import TraceError
from benchorch.frameworks.exported_graph import read_export_graph
from benchorch.frameworks.onnx_graph import INPUT, operator_graph, read_onnx_graph


def value(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, "n"])


def model(*nodes, held=()):
    weights = [helper.make_tensor(name, TensorProto.FLOAT, [1], [1.0]) for name in held]
    graph = helper.make_graph(list(nodes), "main", [value("x")], [value("y")], weights)
    return helper.make_model(graph)


def reads(graph):
    return {node.name: node.inputs for node in graph.nodes}


def test_edges_lead_from_inputs_through_operators_and_weights_are_none():
    found = operator_graph(
        model(
            helper.make_node("MatMul", ["x", "w"], ["h"], "mm"),
            helper.make_node("Add", ["h", "x"], ["y"], "add"),
            held=("w",),
        )
    )
    assert (found.name, found.source) == ("main", "onnx")
    assert reads(found) == {"x": (), "mm": ("x",), "add": ("mm", "x")}
    assert [node.op for node in found.nodes] == [INPUT, "MatMul", "Add"]
    assert found.nodes[0].attributes["shape"] == "float[2, n]"


def test_constants_compute_nothing():
    constant = helper.make_node("Constant", [], ["c"], "c", value_float=1.0)
    found = operator_graph(model(constant, helper.make_node("Add", ["x", "c"], ["y"], "add")))
    assert reads(found) == {"x": (), "add": ("x",)}


def test_nodes_without_a_name_and_of_the_same_name_are_told_apart():
    found = operator_graph(
        model(
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"], "relu"),
            helper.make_node("Relu", ["b"], ["y"], "relu"),
        )
    )
    assert reads(found) == {"x": (), "Relu_0": ("x",), "relu": ("Relu_0",), "relu#2": ("relu",)}
    assert found.nodes[1].attributes["viewer_id"] == "<node_0>"


def test_a_branch_reads_what_its_body_takes_from_outside():
    body = helper.make_graph([helper.make_node("Neg", ["h"], ["n"])], "body", [], [value("n")])
    found = operator_graph(
        model(
            helper.make_node("Relu", ["x"], ["h"], "relu"),
            helper.make_node("Cast", ["x"], ["c"], "cast", to=TensorProto.BOOL),
            helper.make_node("If", ["c"], ["y"], "if", then_branch=body, else_branch=body),
        )
    )
    assert reads(found)["if"] == ("cast", "relu")


@pytest.mark.parametrize(
    ("name", "scopes", "module"),
    [
        ("n", "['', 'enc.0', 'enc.0.fc', 'linear']", "enc.0.fc"),
        ("n", "not a list", ""),
        ("/enc/layer.0/fc/MatMul", "", "enc.layer.0.fc"),
        ("plain", "", ""),
    ],
)
def test_the_module_is_what_the_exporter_noted(name, scopes, module):
    node = helper.make_node("Relu", ["x"], ["y"], name)
    if scopes:
        entry = node.metadata_props.add()
        entry.key, entry.value = "pkg.torch.onnx.name_scopes", scopes
    assert operator_graph(model(node)).nodes[1].module == module


def test_weights_beside_the_file_are_not_needed(tmp_path):
    made = model(helper.make_node("MatMul", ["x", "w"], ["y"], "mm"))
    weight = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], bytes(4 * 4096), raw=True)
    made.graph.initializer.append(weight)
    beside = {"save_as_external_data": True, "location": "weights", "size_threshold": 0}
    onnx.save(made, str(tmp_path / "model.onnx"), **beside)
    (tmp_path / "weights").unlink()
    assert reads(read_onnx_graph(tmp_path / "model.onnx")) == {"x": (), "mm": ("x",)}


@pytest.mark.parametrize("content", [b"", b"\xff\xff no model", b"{}"])
@pytest.mark.parametrize("reader", [read_onnx_graph, read_export_graph])
def test_a_file_that_is_none_is_said(tmp_path, reader, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(TraceError, match=r"file is no (ONNX model|exported program)"):
        reader(tmp_path / "file")


@pytest.mark.parametrize("reader", [read_onnx_graph, read_export_graph])
def test_a_file_that_is_not_there_is_said(tmp_path, reader):
    with pytest.raises(TraceError, match="missing"):
        reader(tmp_path / "missing")


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

    def forward(self, x):
        return self.inner(x) + x


def test_an_exported_program_has_its_operators_and_their_modules(tmp_path):
    program = torch.export.export(Two(), (torch.randn(2, 4),))
    torch.export.save(program, tmp_path / "model.pt2")
    found = read_export_graph(tmp_path / "model.pt2")
    assert reads(found) == {"x": (), "linear": ("x",), "relu": ("linear",), "add": ("relu", "x")}
    assert [node.module for node in found.nodes] == ["", "inner.0", "inner.1", ""]
    assert found.nodes[1].attributes["shape"] == "float32[2, 4]"
    assert (found.name, found.source) == ("graph", "export")
