"""Modules that benchorch itself makes of a user's files."""

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper

from benchorch.frameworks.module_fingerprint import content_of
from benchorch.frameworks.onnx_module import OnnxGraph


def write(path: Path, *, external: bool, scale: float) -> Path:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [512], [scale] * 512)
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "scaled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 512])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.parent.mkdir()
    options = {"save_as_external_data": True, "location": "w.data"} if external else {}
    onnx.save_model(model, path, size_threshold=0, **options)
    return path


def test_an_onnx_graph_is_its_file_and_the_weights_beside_it(tmp_path: Path) -> None:
    found = []
    for name, scale in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        module = OnnxGraph(write(tmp_path / name / "m.onnx", external=True, scale=scale))
        module(x=torch.ones(1, 512))  # a script has called it before it is looked at
        found.append(content_of(module).fields)
    assert "unhashable" not in found[0]
    assert found[0] == found[1] != found[2]
