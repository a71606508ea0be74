"""An ONNX file as a module: the names of its inputs."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from benchorch.domain.tensors import Example
from benchorch.frameworks.onnx_files import MODEL_FILE
from benchorch.frameworks.onnx_module import OnnxGraph


@pytest.mark.parametrize(
    ("names", "inner", "arguments"),
    [
        (("a.b", "a:c"), "sum", ("a_b", "a_c")),
        (("a.b", "a_b"), "sum", ("a_b_", "a_b")),
        (("a.b", "a:b"), "sum", ("a_b", "a_b_")),
        (("a.b", "1"), "a_b", ("a_b_", "input_1")),
    ],
)
def test_each_input_is_an_argument_of_its_own(
    names: tuple[str, str], inner: str, arguments: tuple[str, str], tmp_path: Path
) -> None:
    values = [helper.make_tensor_value_info(each, TensorProto.FLOAT, [2]) for each in (*names, "y")]
    nodes = [
        helper.make_node("Sub", list(names), [inner]),
        helper.make_node("Abs", [inner], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, str(tmp_path / "own.onnx"))

    module = OnnxGraph(tmp_path / "own.onnx")
    assert tuple(each.argument for each in module.inputs) == arguments
    tensors = module.tensors({})
    expected = module(**tensors).numpy()
    arrays = {name: each.numpy() for name, each in tensors.items()}
    module.write(tmp_path, Example(arrays=arrays, keywords={}, specs=()))
    (found,) = onnxruntime.InferenceSession(str(tmp_path / MODEL_FILE)).run(None, arrays)
    np.testing.assert_array_equal(found, expected)


MAPS = helper.make_sequence_type_proto(
    helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
)
TEXTS = helper.make_tensor_type_proto(TensorProto.STRING, [1])


@pytest.mark.parametrize("kind", [MAPS, TEXTS], ids=["maps", "texts"])
def test_an_output_that_holds_no_numbers_is_refused(kind: onnx.TypeProto, tmp_path: Path) -> None:
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1]),
        helper.make_value_info("scores", kind),
    ]
    nodes = [helper.make_node("Identity", ["x"], ["scores"])]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    onnx.save(helper.make_model(graph), str(tmp_path / "own.onnx"))
    with pytest.raises(ValueError, match="its output scores is no tensor of numbers; skl2onnx"):
        OnnxGraph(tmp_path / "own.onnx")
