"""Model Optimizer's graphs, where it is installed: which operators, and what they compute."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from benchorch.conversions.modelopt_onnx import ModelOptOnnx
from benchorch.domain.tensors import Example, TensorSpec
from benchorch.interfaces.conversion import BuildRequest

X = np.random.default_rng(0).standard_normal((2, 3, 8, 8), dtype=np.float32)


def request(out: Path) -> BuildRequest:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten()]
    module = torch.nn.Sequential(*layers, torch.nn.Linear(16 * 64, 64)).eval()
    spec = TensorSpec(name="input", shape=("batch_size", 3, 8, 8), dtype="float32")
    return BuildRequest(
        module=lambda: module.requires_grad_(False),
        source=None,
        sources={},
        example=Example(arrays={"input": X}, keywords={}, specs=(spec,), dynamic=("batch_size",)),
        calibration=lambda seed: {
            "input": np.random.default_rng(seed).standard_normal(X.shape, dtype=np.float32)
        },
        out_dir=out,
        scratch_dir=out,
        device="cpu",
    )


@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_both_layers_are_rounded_in_onnx_types_and_stay_near(
    precision: str, tmp_path: Path
) -> None:
    pytest.importorskip("modelopt")
    import onnx
    from onnx.reference import ReferenceEvaluator

    step = ModelOptOnnx(precision=precision, samples=4)  # type: ignore[arg-type]
    asked = request(tmp_path)
    with torch.no_grad():
        expected = asked.module()(torch.from_numpy(X)).numpy()
    step.build(asked)

    graph = onnx.load(tmp_path / "model.onnx")
    counts = Counter(node.op_type for node in graph.graph.node)
    assert counts["DequantizeLinear"] == 4  # weight and activation of two layers
    assert {node.domain for node in graph.graph.node} <= {"", "ai.onnx"}
    assert graph.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch_size"
    (found,) = ReferenceEvaluator(graph).run(None, {"input": X})
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert 1e-4 < error < step.tolerance_ratio


def test_nvfp4_needs_a_gpu_and_says_so() -> None:
    step = ModelOptOnnx(precision="nvfp4")
    assert "NVIDIA GPUs only" in str(step.unavailable("cpu"))


def test_there_is_something_to_calibrate_with() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ModelOptOnnx(precision="fp8", samples=0)
