"""Fused attention whose result is viewed as it lies in memory: GPT-2 does it so."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from support import conversions as lab
from support import models as tiny_models


class Attention(torch.nn.Module):
    """Heads side by side, and a product that wants its rows flattened."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(16, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = x.view(x.shape[0], 4, 2, 8).transpose(1, 2)
        found = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
        rows = found.transpose(1, 2).reshape(x.shape[0], 4, 16)
        return torch.mm(rows.view(-1, 16), self.weight)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_models, "Attention", Attention, raising=False)
    monkeypatch.setitem(lab._INPUTS, "Attention", (("x", (64,), "float32"),))


@pytest.mark.parametrize(
    "name",
    [
        "decompositions",
        pytest.param("executorch", marks=pytest.mark.slow),
        pytest.param("tvm", marks=pytest.mark.slow),
    ],
)
def test_it_can_be_written_out(name: str, tmp_path: Path) -> None:
    chain = lab.chain_of(name, "Attention")
    reason = lab.cannot_run(chain)
    if reason:
        pytest.skip(f"{name}: {reason}")
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    lab.assert_same(lab.outputs_of(chain, executable), lab.reference_of(made), 1e-5)
    executable.close()
