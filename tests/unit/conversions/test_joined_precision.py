"""A precision is one part: joined with any other it computes the same model in that precision."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from support import conversions as lab
from support import models as tiny_models
from support.slices import only

JOINED = [
    ("bf16+export", "Transformer"),
    ("fp16+export", "Convolution"),
    ("fp16+torchscript", "Convolution"),
    ("bf16+torchscript_frozen", "Masked"),
    ("bf16+decompositions", "Transformer"),
    ("autocast_bf16+export", "Masked"),
    ("autocast_bf16+torchscript", "Mlp"),
    ("autocast_fp16+export_dynamic", "Masked"),
    ("channels_last+export", "Convolution"),
    ("channels_last+autocast_bf16", "Convolution"),
    ("mkldnn", "Convolution"),
    ("mkldnn+torchscript", "Convolution"),
    ("bf16+aot_eager", "Transformer"),
    ("export+compile_eager", "Masked"),
    ("BF16+JIT_TRACE", "Mlp"),
    ("FP16+EAGER", "Mlp"),
]
COMPILED = [
    ("bf16+export+inductor", "Masked"),
    ("autocast_bf16+inductor_freezing", "Mlp"),
    ("autocast_bf16+aot_inductor_freezing", "Mlp"),
    ("bf16+aot_inductor", "Transformer"),
    ("channels_last+inductor", "Convolution"),
    ("decompositions+inductor", "Transformer"),
    ("decompositions+aot_inductor", "Masked"),
    ("FP16+EXPORT+COMPILE_INDUCTOR_DEFAULT_EAGER_FALLBACK", "Mlp"),
    ("EXPORT+COMPILE_INDUCTOR_MAX_AUTOTUNE", "Mlp"),
]


@pytest.mark.parametrize(("name", "model"), only(JOINED[::3], [*JOINED, *COMPILED]))
def test_it_computes_the_same_model(name: str, model: str, tmp_path: Path) -> None:
    chain = lab.chain_of(name, model)
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    for index in range(lab.INPUTS):
        outputs = lab.outputs_of(chain, executable, index)
        lab.assert_same(outputs, lab.reference_of(made, index), chain.tolerance_ratio)
    facts = dict(executable.facts())
    executable.close()

    words = name.lower()
    told = facts.get("autocast") if "autocast" in words else facts["dtype"]
    wanted = "bfloat16" if "bf16" in words else "float16" if "fp16" in words else "float32"
    if not (("autocast" in words and "torchscript" in words) or "aot_inductor" in words):
        assert told == wanted


class Positioned(torch.nn.Module):
    """A layer in bfloat16 whose positions stay in float32, as rotary frequencies do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3).bfloat16()
        self.register_buffer("positions", torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x + self.positions.to(x.dtype))


@pytest.mark.parametrize(
    "name", only(["torchscript", "export"], ["torchscript", "export", "aot_inductor"])
)
def test_inputs_take_the_dtype_of_parameters_whatever_that_of_buffers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_models, "Positioned", Positioned, raising=False)
    chain = lab.chain_of(name, "Positioned")
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    lab.assert_same(lab.outputs_of(chain, executable), lab.reference_of(made), 3e-2)
    assert executable.settings()["dtype"] == "bfloat16"
    executable.close()
