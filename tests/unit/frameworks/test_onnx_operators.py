"""Operators that torch's ONNX exporter does not know give in ONNX Runtime what torch gives."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest
import torch

from benchorch.frameworks.onnx_operators import translations

pytest.importorskip("transformers.integrations.moe")


class Experts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.randn(3, 4, 5))

    def forward(self, rows: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return torch.ops.transformers.grouped_mm_fallback(rows, self.weights, ends)


@pytest.mark.parametrize("ends", [[2, 2, 7], [0, 0, 7], [7, 7, 7], [1, 4, 7]])
def test_rows_of_experts_meet_the_weights_of_their_own(tmp_path: Path, ends: list[int]) -> None:
    torch.manual_seed(0)
    module, rows, traced = Experts().eval(), torch.randn(7, 4), torch.tensor([3, 5, 7]).int()
    file = tmp_path / "model.onnx"

    torch.onnx.export(
        module,
        (rows, traced),
        str(file),
        dynamo=True,
        verbose=False,
        custom_translation_table=translations(),
    )

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    meant = torch.tensor(ends).int()
    (found,) = session.run(None, {"rows": rows.numpy(), "ends": meant.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), module(rows, meant).detach())
