"""OpenVINO computes the same in the precision that was asked for, and says what it ran."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchorch.errors import BuildError, MeasureError
from benchorch.frameworks.openvino_files import import_openvino
from benchorch.runtimes.openvino import OpenVino, _bfloat16_bits
from support import conversions as lab
from support.parity_lab import judge_model

if TYPE_CHECKING:
    import torch

# Not importorskip: importing it is what `import_openvino` is for.
pytestmark = pytest.mark.skipif(
    find_spec("openvino") is None,
    reason="OpenVINO comes with pip install 'benchorch[openvino]'",
)

MODELS = ("Mlp", "Masked", "Convolution", "Transformer")
CONVERTED = ("openvino", "openvino_trace", "openvino_onnx", "openvino_bf16")


def test_a_fresh_process_needs_neither_torch_nor_telemetry(tmp_path: Path) -> None:
    chain = lab.chain_of("openvino", "Masked")
    made = lab.built(chain, tmp_path)

    outputs, facts, modules = lab.in_fresh_process("openvino", "Masked", made, tmp_path)

    lab.assert_same(outputs, lab.reference_of(made), 1e-5)
    assert facts["dtype"] == "float32"
    assert facts["precision_hint"] == "float32"
    assert facts["threads"] == lab.THREADS
    assert modules.isdisjoint({"torch", "nncf", "onnx", "openvino_telemetry.main"})
    assert made.source is not None
    assert {path.name for path in made.source.iterdir()} >= {"model.xml", "model.bin"}


def test_telemetry_cannot_be_imported_once_openvino_was() -> None:
    import_openvino()
    assert sys.modules["openvino_telemetry"] is None


def two_products_in_int8() -> torch.nn.Module:
    import torch

    parts = (torch.nn.Linear(48, 48), torch.nn.Tanh(), torch.nn.Linear(48, 3))
    for part in parts[::2]:
        torch.nn.init.zeros_(part.bias)  # type: ignore[arg-type]
    return torch.nn.Sequential(*parts)


def test_operators_that_it_fuses_wrongly_can_be_left_apart() -> None:
    x = np.random.default_rng(0).standard_normal((4, 48)).astype(np.float32)
    chain = "onnxruntime_int8_static+openvino"
    changes = {"runtime": {"snippets": False}}
    verdict = judge_model(two_products_in_int8, {"input": x}, chain, changes=changes)
    assert verdict.passed, verdict.reasons


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", [*CONVERTED, "bf16+openvino", "fp16+openvino"])
def test_every_way_to_openvino_computes_what_eager_computes(
    name: str, model: str, tmp_path: Path
) -> None:
    chain = lab.chain_of(name, model)
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    for index in range(lab.INPUTS):
        found = lab.outputs_of(chain, executable, index)
        lab.assert_same(found, lab.reference_of(made, index), chain.tolerance_ratio)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openvino", "openvino_trace", "openvino_onnx"])
def test_one_graph_serves_all_batch_sizes_where_they_are_open(name: str, tmp_path: Path) -> None:
    chain = lab.chain_of(name, "Masked", batch_size=1, dynamic=("batch_size",))
    executable = lab.converted(chain, tmp_path / "open")
    for batch_size in (1, 3):
        other = lab.chain_of("eager", "Masked", batch_size=batch_size)
        expected = lab.reference_of(lab.built(other, tmp_path / str(batch_size)))
        lab.assert_same(lab.outputs_of(other, executable), expected, chain.tolerance_ratio)


QUANTIZED = {
    "openvino_int8": 4e-2,
    "openvino_int8_weights": 2e-2,
    "openvino_int4_weights": 2e-1,
}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["Mlp", "Convolution", "Transformer"])
@pytest.mark.parametrize("name", QUANTIZED)
def test_a_quantised_graph_is_near_and_runs_in_fewer_bits(
    name: str, model: str, tmp_path: Path
) -> None:
    pytest.importorskip("nncf", reason="NNCF comes with pip install 'benchorch[openvino]'")
    chain = lab.chain_of(name, model)
    made = lab.built(chain, tmp_path)
    outputs, facts, modules = lab.in_fresh_process(name, model, made, tmp_path)
    lab.assert_same(outputs, lab.reference_of(made), QUANTIZED[name])
    assert QUANTIZED[name] <= chain.tolerance_ratio
    assert facts["quantized_share"] > 0
    if name == "openvino_int4_weights" and model != "Convolution":
        assert {"i4", "u4"} & set(facts["executed_dtypes"])
    assert modules.isdisjoint({"torch", "nncf"})


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["compile_openvino", "export+compile_openvino"])
def test_torch_compile_runs_all_of_a_model_in_openvino(
    name: str, model: str, tmp_path: Path
) -> None:
    chain = lab.chain_of(name, model)
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    for index in range(lab.INPUTS):
        found = lab.outputs_of(chain, executable, index)
        lab.assert_same(found, lab.reference_of(made, index), 1e-5)
    facts = executable.facts()
    executable.close()
    assert facts["dtype"] == "float32"
    assert facts["partitions"] == 1
    assert facts["fallback_partitions"] == 0
    assert facts["fallback_nodes"] == 0


@pytest.mark.slow
def test_a_backend_that_leaves_everything_to_pytorch_is_refused(tmp_path: Path) -> None:
    chain = lab.chain_of("bf16+compile_openvino")
    made = lab.built(chain, tmp_path)
    with pytest.raises(MeasureError, match="runs no part of the model") as caught:
        lab.loaded(chain, made)
    assert caught.value.kind == "provider_fallback"


@pytest.mark.slow
def test_what_openvino_cannot_trace_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(import_openvino(), "convert_model", fail)
    with pytest.raises(BuildError, match=r"OpenVINO refused the model: no such operator"):
        lab.built(lab.chain_of("openvino_trace"), tmp_path)


def test_a_gpu_of_nvidias_is_none_of_openvinos() -> None:
    assert "NVIDIA" in str(OpenVino().unavailable("cuda"))
    assert OpenVino().unavailable("cpu") is None


def test_bfloat16_is_rounded_to_even() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, -2.5], np.float32)
    bits = _bfloat16_bits(values).astype(np.uint32) << np.uint32(16)  # type: ignore[operator]
    np.testing.assert_array_equal(bits.view(np.float32), [1.0, 1.0, 1.015625, -2.5])
