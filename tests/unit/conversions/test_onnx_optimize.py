"""The transformer optimiser's fusions are counted, and a graph without its patterns is marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchorch.conversions.onnx_export import OnnxExport
from benchorch.conversions.onnx_optimize import OnnxOptimize
from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example
from benchorch.frameworks.onnx_files import FUSED
from benchorch.interfaces.conversion import BuildRequest
from benchorch.trial.execution import execution_of
from support import conversions as lab

X = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)


class SpelledGelu(torch.nn.Module):
    """GELU in five operators, as checkpoints of BERT have it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        return y * 0.5 * (1.0 + torch.erf(y / 1.4142135381698608))


def request(module: torch.nn.Module, out: Path, sources: dict[Format, Path]) -> BuildRequest:
    out.mkdir()
    return BuildRequest(
        module=lambda: module,
        source=sources.get(Format.ONNX),
        sources=sources,
        example=Example(arrays={"x": X}, keywords={}, specs=(), dynamic=()),
        calibration=lambda _: {"x": X},
        out_dir=out,
        scratch_dir=out,
        device="cpu",
    )


def test_a_spelled_out_gelu_becomes_one_operator(tmp_path: Path) -> None:
    import onnxruntime

    module = SpelledGelu().eval().requires_grad_(False)
    OnnxExport().build(request(module, tmp_path / "onnx", {}))
    OnnxOptimize().build(request(module, tmp_path / "fused", {Format.ONNX: tmp_path / "onnx"}))
    session = onnxruntime.InferenceSession(str(tmp_path / "fused" / "model.onnx"))
    assert int(session.get_modelmeta().custom_metadata_map[FUSED]) >= 4
    expected = module(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(session.run(None, {"x": X})[0], expected, rtol=1e-4, atol=1e-5)


def test_a_graph_without_its_patterns_has_no_effect(tmp_path: Path) -> None:
    chain = lab.chain_of("onnxruntime_optimized")
    executable = lab.converted(chain, tmp_path)
    (reason,) = execution_of(chain, executable.facts()).no_effect
    assert "no pattern of bert was found" in reason


@pytest.mark.parametrize(("fused", "marked"), [(0, True), (3, False)])
def test_the_reason_follows_the_count(fused: int, marked: bool) -> None:
    chain = lab.chain_of("onnxruntime_optimized")
    assert bool(execution_of(chain, {"fused_operators": fused}).no_effect) is marked
