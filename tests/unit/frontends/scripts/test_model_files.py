"""Files that are models: an ONNX graph and an exported program, taken as scripts are."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchorch.config.trial_setup import TrialSetup
from benchorch.domain.artifact import Format
from benchorch.domain.codec import encode
from benchorch.errors import BuildError
from benchorch.files import file_digest
from benchorch.frontends.scripts.discovery_process import DiscoveryRequest, discover
from benchorch.models.script import ScriptModel
from support import conversions as lab

ROWS = np.random.default_rng(0)
WEIGHT = ROWS.standard_normal((4, 64)).astype("float32")


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setattr(sys, "path", [*sys.path])


def graph(path: Path, *sizes: Any, name: str = "x.1", dtype: int = TensorProto.FLOAT) -> Path:
    """Floats of these sizes times a matrix; a branch has the input in a graph of its own."""
    taken = helper.make_tensor_value_info(name, dtype, sizes)
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [
        helper.make_node("Cast", [name], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["floats", "w"], ["product"], name="product"),
        helper.make_node("Relu", ["product"], ["y"]),
    ]
    held = [numpy_helper.from_array(WEIGHT, "w"), numpy_helper.from_array(np.array([1, 2]), "axes")]
    made = helper.make_model(
        helper.make_graph(nodes, "g", [taken], [given], held),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=10,
    )
    onnx.save(made, str(path))
    return path


def found_in(path: Path, folder: Path, *arguments: str) -> dict[str, Any]:
    request = DiscoveryRequest(script=path, arguments=arguments, folder=folder)
    return cast(dict[str, Any], encode(discover(request)))


def model_of(path: Path, folder: Path, *arguments: str) -> ScriptModel:
    found = found_in(path, folder, *arguments)
    assert found["problem"] is None
    (call,) = found["models"][0]["invocations"]
    return ScriptModel(
        script=str(path),
        digest=file_digest(path),
        call=call["hash"],
        arguments=arguments,
        **call["model"],
    )


def chain_with(name: str, model: ScriptModel) -> TrialSetup:
    return replace(lab.chain_of(name), model=model)


def test_a_graph_is_a_model_by_the_files_name(tmp_path: Path) -> None:
    found = found_in(graph(tmp_path / "net.onnx", "batch", 4), tmp_path)
    (model,) = found["models"]
    assert (model["name"], model["class"], model["line"]) == ("net", "an ONNX graph", None)
    assert (model["parameters"], model["parameter_bytes"]) == (256, 1024)
    assert model["dtypes"] == ["float32"]
    (call,) = model["invocations"]
    assert call["inputs"] == [{"name": "x_1", "shape": [1, 4], "dtype": "float32"}]


def test_open_sizes_are_given_as_arguments(tmp_path: Path) -> None:
    path = graph(tmp_path / "net.onnx", "batch", "seq", 4)
    (model,) = found_in(path, tmp_path, "batch=2", "seq=3", "--of-another-script")["models"]
    assert model["invocations"][0]["inputs"][0]["shape"] == [2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "the graph leaves seq open; give sizes: :: seq=128"),
        (("seq=3", "bacth=2"), "no open size bacth; it leaves open: batch, seq"),
    ],
)
def test_sizes_that_are_missing_or_unknown_are_told(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    found = found_in(graph(tmp_path / "net.onnx", "batch", "seq", 4), tmp_path, *arguments)
    assert words in found["problem"]["message"]
    assert found["models"] == []


@pytest.mark.parametrize("content", [b"", b"not a graph", b"\x00\x01\x02"])
def test_what_is_no_graph_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "net.onnx").write_bytes(content)
    found = found_in(tmp_path / "net.onnx", tmp_path)
    assert "not a valid ONNX file" in found["problem"]["message"]


def test_whole_numbers_are_zeros_and_ones(tmp_path: Path) -> None:
    path = graph(tmp_path / "net.onnx", 8, 4, name="ids", dtype=TensorProto.INT64)
    batch = model_of(path, tmp_path).batch(lab.chain_of("eager").workload, 0)["ids"]
    assert batch.dtype == np.int64
    assert set(batch.ravel().tolist()) == {0, 1}


def test_the_baseline_is_the_graph_run_without_optimisation(tmp_path: Path) -> None:
    model = model_of(graph(tmp_path / "net.onnx", "batch", 4), tmp_path)
    chain = chain_with("eager", model)
    made = lab.built(chain, tmp_path / "built")
    executable = lab.loaded(chain, made)
    outputs = lab.outputs_of(chain, executable)
    expected = np.maximum(lab.inputs_of(chain)["x_1"] @ WEIGHT, 0)
    lab.assert_same(outputs, {"0": expected}, 1e-5)
    assert executable.facts()["provider"] == "onnxruntime, not optimised"
    assert made.counts.parameters == 256
    assert made.counts.flops is None
    assert "outside of torch" in made.counts.unavailable


@pytest.mark.parametrize("name", ["onnxruntime", "onnxruntime_int8_dynamic"])
def test_conversions_of_a_graph_take_it_as_it_is(tmp_path: Path, name: str) -> None:
    chain = chain_with(name, model_of(graph(tmp_path / "net.onnx", 8, 4), tmp_path))
    assert chain.unavailable is None
    made = lab.built(chain, tmp_path / "built")
    executable = lab.loaded(chain, made)
    outputs = lab.outputs_of(chain, executable)
    lab.assert_same(outputs, lab.reference_of(made), chain.tolerance_ratio)
    executable.close()
    kept = onnx.load(str(made.sources[Format.ONNX] / "model.onnx"))
    assert [each.name for each in kept.graph.input] == ["x_1"]


@pytest.mark.parametrize("name", ["inductor", "export", "bf16", "torchscript", "lightning_onnx"])
def test_conversions_that_need_a_torch_module_are_skips(tmp_path: Path, name: str) -> None:
    chain = chain_with(name, model_of(graph(tmp_path / "net.onnx", 8, 4), tmp_path))
    assert "this model provides onnx and callable." in str(chain.unavailable)


def test_another_opset_is_refused(tmp_path: Path) -> None:
    model = model_of(graph(tmp_path / "net.onnx", 8, 4), tmp_path)
    asked = lab.chain_of("onnxruntime", changes={"onnx": {"opset": 20}})
    with pytest.raises(BuildError, match="whose opset stays as it is"):
        lab.built(replace(asked, model=model), tmp_path / "built")


def test_two_graphs_of_one_shape_are_two_models_to_the_store(tmp_path: Path) -> None:
    from benchorch.frameworks.module_fingerprint import state_digest

    path = graph(tmp_path / "net.onnx", 8, 4)
    first = state_digest(model_of(path, tmp_path).load(0))
    held = onnx.load(str(path))
    held.graph.node[-1].op_type = "Sigmoid"
    onnx.save(held, str(path))
    assert state_digest(model_of(path, tmp_path).load(0)) != first


def test_an_exported_program_is_called_as_it_was_exported(tmp_path: Path) -> None:
    import torch

    net = torch.nn.Linear(4, 3)
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(net, (torch.ones(2, 4),)), path)
    (model,) = found_in(path, tmp_path)["models"]
    assert (model["name"], model["class"]) == ("net", "an exported program")
    loaded = model_of(path, tmp_path)
    assert Format.MODULE in loaded.gives
    answer = loaded.load(0)(torch.ones(2, 4))
    assert torch.allclose(answer, net(torch.ones(2, 4)))
