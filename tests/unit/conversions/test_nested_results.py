"""What a module may return and share: every torch runtime makes the same of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from support import conversions as lab
from support import models as tiny_models
from support.slices import only

TORCH_NATIVE = ["eager", "export", "export_strict", "decompositions", "torchscript", "aot_eager"]


@dataclass
class Pair:
    first: torch.Tensor
    rest: Inner


@dataclass
class Inner:
    deep: torch.Tensor


class Named(NamedTuple):
    low: torch.Tensor
    high: torch.Tensor


class Returns(torch.nn.Module):
    """Three tensors in whatever `arrange` makes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)


def returning(arrange: Callable[[torch.Tensor, torch.Tensor], object]) -> type[torch.nn.Module]:
    class Returning(Returns):
        def forward(self, x: torch.Tensor) -> object:
            hidden = self.linear(x)
            return arrange(hidden, hidden * 2)

    return Returning


ARRANGED: Mapping[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "Dataclass": lambda a, b: Pair(first=a, rest=Inner(deep=b)),
    "Dict": lambda a, b: {"z": a, "a": b},
    "NestedTuple": lambda a, b: (a, (None, [b])),
    "NamedTuple": lambda a, b: Named(low=a, high=b),
}


@pytest.mark.parametrize(
    ("name", "arranged"),
    # Every result through eager, and one of them through a program and through a trace.
    only(
        lambda case: (
            "eager" in case or case in (("export", "Dataclass"), ("torchscript", "Dataclass"))
        ),
        itertools.product(TORCH_NATIVE, ARRANGED),
    ),
)
def test_a_nested_result_keeps_its_order(
    name: str, arranged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = returning(ARRANGED[arranged])
    monkeypatch.setattr(tiny_models, f"Returns{arranged}", model, raising=False)
    chain = lab.chain_of(name, f"Returns{arranged}")
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    outputs = lab.outputs_of(chain, executable)
    executable.close()

    lab.assert_same(outputs, lab.reference_of(made), chain.tolerance_ratio)
    np.testing.assert_allclose(outputs["1"], outputs["0"] * 2, rtol=1e-6)


@pytest.mark.parametrize(
    "name",
    only(
        ("eager", "export", "torchscript"),
        [*TORCH_NATIVE, "torchscript_script", "bf16", "autocast_bf16"],
    ),
)
def test_tied_weights_stay_one_model(name: str, tmp_path: Path) -> None:
    chain = lab.chain_of(name, "Transformer")
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    lab.assert_same(
        lab.outputs_of(chain, executable), lab.reference_of(made), chain.tolerance_ratio
    )
    executable.close()
