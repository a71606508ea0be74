"""ONNX graphs: where their weights lie, what they are made from, what is left to be quantised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import matmul_nbits_quantizer as nbits

from benchorch.conversions.onnx_int4 import OnnxBlockWeights
from benchorch.conversions.onnx_int8_dynamic import OnnxInt8Dynamic
from benchorch.conversions.onnx_int8_static import OnnxInt8Static
from benchorch.conversions.onnx_prepare import without_gemms
from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError
from benchorch.frameworks import onnx_files
from benchorch.interfaces.conversion import BuildRequest, FileStep
from support import conversions as lab
from support import models as tiny_models
from support.slices import only

QUANTIZED = ("onnxruntime_int8_dynamic", "onnxruntime_int8_static", "onnxruntime_int4")


def assert_parity(name: str, model: str, directory: Path, **settings: int) -> None:
    chain = lab.chain_of(name, model, **settings)
    made = lab.built(chain, directory)
    executable = lab.loaded(chain, made)
    found = lab.outputs_of(chain, executable)
    lab.assert_same(found, lab.reference_of(made), chain.tolerance_ratio)


@pytest.fixture(scope="module")
def fresh() -> Iterator[lab.FreshProcess]:
    process = lab.FreshProcess()
    yield process
    process.close()


@pytest.mark.parametrize(
    "name",
    only(
        ["onnxruntime", "onnxruntime_int8_dynamic"], ["onnxruntime", *QUANTIZED, "onnxruntime_fp16"]
    ),
)
def test_weights_that_are_too_large_for_one_file_lie_beside_the_graph(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: lab.FreshProcess
) -> None:
    monkeypatch.setattr(onnx_files, "LARGEST_SINGLE_FILE_BYTES", 1000)
    chain = lab.chain_of(name)
    made = lab.built(chain, tmp_path)

    outputs, _, modules = fresh.load(name, "Mlp", made, tmp_path)

    assert made.source is not None
    files = [path.name for path in made.source.iterdir() if path.name.startswith("model.onnx")]
    assert "model.onnx" in files
    # ONNX keeps what is smaller than 1 KiB with the graph, and so all of a quantised tiny model.
    assert len(files) == (1 if name in QUANTIZED else 2)
    lab.assert_same(outputs, lab.reference_of(made), chain.tolerance_ratio)
    assert modules.isdisjoint({"torch", "onnx"})


@pytest.mark.parametrize("name", ["onnxruntime", "export+onnxruntime"])
def test_a_tied_weight_is_one_weight_and_computes_the_same(name: str, tmp_path: Path) -> None:
    assert_parity(name, "Transformer", tmp_path)


def test_an_exported_program_with_a_constant_and_a_dict_becomes_onnx(tmp_path: Path) -> None:
    assert_parity("export+onnxruntime", "Masked", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUANTIZED)
def test_ids_a_mask_and_a_nested_result_survive_quantisation(name: str, tmp_path: Path) -> None:
    chain = lab.chain_of(name, "Masked")
    made = lab.built(chain, tmp_path)
    outputs, facts, _ = lab.in_fresh_process(name, "Masked", made, tmp_path)
    for index in ("0", "1"):  # the third is an argmax, which may differ where two are close
        error = lab.relative_l2(outputs[index], lab.reference_of(made)[index])
        assert error <= chain.tolerance_ratio
    assert facts["quantized_share"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", [*QUANTIZED, "onnxruntime_fp16"])
def test_a_quantised_graph_keeps_its_open_batch(name: str, tmp_path: Path) -> None:
    chain = lab.chain_of(name, batch_size=1, dynamic=("batch_size",))
    executable = lab.converted(chain, tmp_path / "open")
    for batch_size in (1, 3):
        other = lab.chain_of("eager", batch_size=batch_size)
        expected = lab.reference_of(lab.built(other, tmp_path / str(batch_size)))
        lab.assert_same(lab.outputs_of(other, executable), expected, chain.tolerance_ratio)


def graph(directory: Path, *nodes: onnx.NodeProto, **weights: np.ndarray) -> Path:
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 16])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, None])],
            [numpy_helper.from_array(array, name) for name, array in weights.items()],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    directory.mkdir(exist_ok=True)
    onnx.save(model, directory / "model.onnx")
    return directory


def request(source: Path, out: Path) -> BuildRequest:
    out.mkdir()
    return BuildRequest(
        module=lambda: pytest.fail("the module is not needed"),
        source=source,
        sources={Format.ONNX: source},
        example=Example(arrays={"x": np.ones((2, 16), np.float32)}, keywords={}, specs=()),
        calibration=lambda number: {"x": np.full((2, 16), number, np.float32)},
        out_dir=out,
        scratch_dir=out,
        device="cpu",
    )


@pytest.mark.parametrize(
    "step", [OnnxInt8Dynamic(), OnnxInt8Static(samples=2), OnnxBlockWeights()], ids=repr
)
def test_a_graph_with_nothing_to_quantise_is_refused(step: FileStep, tmp_path: Path) -> None:
    source = graph(tmp_path / "in", helper.make_node("Erf", ["x"], ["y"]))
    with pytest.raises(BuildError, match="found no operator") as caught:
        step.build(request(source, tmp_path / "out"))
    assert caught.value.kind == "nothing_quantized"


class OlderQuantizer(nbits.MatMulNBitsQuantizer):
    """With the parameters of ONNX Runtime 1.22 and 1.23, as far as they are here."""

    def __init__(
        self,
        model: onnx.ModelProto,
        block_size: int = 128,
        is_symmetric: bool = False,
        accuracy_level: int | None = None,
        algo_config: nbits.WeightOnlyQuantConfig | None = None,
    ) -> None:
        config = algo_config or nbits.DefaultWeightOnlyQuantConfig(
            block_size, is_symmetric, accuracy_level
        )
        super().__init__(model, algo_config=config)


@pytest.mark.parametrize("bits", [4, 8])
def test_weights_have_the_bits_that_are_requested_with_every_onnx_runtime(
    bits: Literal[4, 8], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nbits, "MatMulNBitsQuantizer", OlderQuantizer)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    source = graph(tmp_path / "in", node, w=np.ones((16, 32), np.float32))
    OnnxBlockWeights(bits=bits, block_size=16).build(request(source, tmp_path / "out"))
    (product,) = onnx.load(tmp_path / "out" / onnx_files.MODEL_FILE).graph.node
    found = {each.name: each.i for each in product.attribute}
    assert (found["bits"], found["block_size"]) == (bits, 16)


def test_a_damaged_graph_is_refused_in_a_sentence(tmp_path: Path) -> None:
    source = graph(tmp_path / "in", helper.make_node("Gemm", ["x", "w"], ["y"]), w=np.ones((3, 4)))
    with pytest.raises(BuildError) as caught:
        OnnxInt8Dynamic().build(request(source, tmp_path / "out"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "step", [OnnxInt8Dynamic(), OnnxInt8Static(samples=2), OnnxBlockWeights()], ids=repr
)
def test_weights_that_are_listed_among_the_inputs_are_none(step: FileStep, tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="m")
    source = graph(tmp_path / "in", node, w=np.ones((16, 32), np.float32))
    model = onnx.load(source / "model.onnx")
    model.ir_version = 3  # in which each weight has to be an input
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [16, 32]))
    onnx.save(model, source / "model.onnx")
    step.build(request(source, tmp_path / "out"))
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    assert [each.name for each in session.get_inputs()] == ["x"]


def test_what_the_quantiser_raises_is_not_the_graphs_fault(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="m")
    source = graph(tmp_path / "in", node, w=np.ones((16, 32), np.float32))
    asked = request(source, tmp_path / "out")
    asked = replace(asked, calibration=lambda _: {"another": np.ones(1)})
    with pytest.raises(BuildError, match="ONNX Runtime cannot quantise the graph: 'x'"):
        OnnxInt8Static(samples=2).build(asked)


@pytest.mark.parametrize("step", [OnnxInt8Dynamic, OnnxInt8Static])
def test_modules_of_fused_nodes_stay_in_floats(step: type[FileStep], tmp_path: Path) -> None:
    """A linear layer's product and sum become one node, which forgets the modules of all."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="head_mm"),
        helper.make_node("Add", ["a", "b"], ["c"], name="head_add"),
        helper.make_node("Relu", ["c"], ["d"], name="relu"),
        helper.make_node("MatMul", ["d", "v"], ["y"], name="tail_mm"),
    ]
    for node in nodes[:2]:
        scopes = str(["", "head", node.name])
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    weights = {"w": np.ones((16, 8), np.float32), "b": np.ones(8, np.float32)}
    source = graph(tmp_path / "in", *nodes, v=np.ones((8, 4), np.float32), **weights)
    step(exclude=("head",)).build(request(source, tmp_path / "out"))  # type: ignore[call-arg]
    operators = [each.op_type for each in onnx.load(tmp_path / "out" / "model.onnx").graph.node]
    assert "Gemm" in operators or operators.count("MatMul") == 1


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_gemm_that_becomes_a_product_computes_the_same(transposed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shape = (8, 16) if transposed else (16, 8)
    weights = {"w": rng.standard_normal(shape, np.float32), "b": np.ones(8, np.float32)}
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="g", transB=transposed)
    model = onnx.load(graph(tmp_path / "in", node, **weights) / "model.onnx")
    x = {"x": rng.standard_normal((2, 16), np.float32)}
    before = onnxruntime.InferenceSession(model.SerializeToString()).run(None, x)[0]

    without_gemms(model)

    assert [each.op_type for each in model.graph.node] == ["MatMul", "Add"]
    assert len(model.graph.initializer) == 2
    after = onnxruntime.InferenceSession(model.SerializeToString()).run(None, x)[0]
    np.testing.assert_allclose(after, before, rtol=1e-5)


def test_a_weight_that_only_a_branch_takes_stays(tmp_path: Path) -> None:
    result = helper.make_tensor_value_info("chosen", onnx.TensorProto.FLOAT, None)
    branches = {
        key: helper.make_graph(
            [helper.make_node("MatMul", ["x", w], ["chosen"])], key, [], [result]
        )
        for key, w in (("then_branch", "w"), ("else_branch", "v"))
    }
    choice = helper.make_node("If", ["yes"], ["y"], **branches)
    weights = {each: np.ones((16, 4), np.float32) for each in "wv"}
    source = graph(tmp_path / "in", choice, yes=np.array([True]), **weights)
    model = onnx.load(source / "model.onnx")
    without_gemms(model)
    assert {each.name for each in model.graph.initializer} == {"yes", "w", "v"}


def test_a_gemm_that_scales_is_left_alone(tmp_path: Path) -> None:
    node = helper.make_node("Gemm", ["x", "w"], ["y"], alpha=2.0)
    source = graph(tmp_path / "in", node, w=np.ones((16, 4), np.float32))
    model = onnx.load(source / "model.onnx")
    without_gemms(model)
    assert [each.op_type for each in model.graph.node] == ["Gemm"]


def test_calibration_needs_at_least_one_sample() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        OnnxInt8Static(samples=0)


class Capital(torch.nn.Module):
    """An argument that torch.export writes in small letters, and that is returned unchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: N803
        return self.linear(X), X


# What is quantised was exported first, and calibrated with inputs of these names.
@pytest.mark.parametrize(
    "name",
    only(
        ["onnxruntime_int8_static", "openvino", "openvino_onnx"],
        ["onnxruntime", "onnxruntime_int8_static", "openvino", "openvino_onnx"],
    ),
)
def test_an_input_has_the_models_name_however_the_exporter_calls_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("openvino") and find_spec("openvino") is None:
        pytest.skip("OpenVINO comes with pip install 'benchorch[openvino]'")
    monkeypatch.setattr(tiny_models, "Capital", Capital, raising=False)
    monkeypatch.setattr(lab, "_INPUTS", {**lab._INPUTS, "Capital": (("X", (4,), "float32"),)})
    assert_parity(name, "Capital", tmp_path)
