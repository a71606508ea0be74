"""Models of a ninth review, by somebody who had not read the code when they were judged.

Outputs in objects of the project's own, gradients within forward, what an exporter drops without a
word, and faults that are small beside larger values in low precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree

from parity_corpus.models import (
    AGREES,
    DIFFERS,
    FROZEN,
    Linear,
    ModelCase,
    registering,
    several,
)
from parity_corpus.second_review import is_traced

MODELS: dict[str, ModelCase] = {}
model = registering(MODELS, eager=AGREES)


class Instances:
    """The detections of one image, as detectors return them."""

    def __init__(self, size: tuple[int, int], **fields: torch.Tensor) -> None:
        self.size, self.fields = size, fields


class Registered(Instances):
    """The same, which torch can flatten, without keys."""


_pytree.register_pytree_node(
    Registered,
    lambda it: ([*it.fields.values()], (it.size, tuple(it.fields))),
    lambda leaves, kept: Registered(kept[0], **dict(zip(kept[1], leaves, strict=True))),
    serialized_type_name="parity_corpus.Registered",
)


@model(
    several(4, 8),
    "scores in an object that torch cannot flatten are others when compiled, beside a right tensor",
    aot_eager=DIFFERS,
    torchscript=FROZEN,
    export=FROZEN,
)
class ScoresInAnObject(Linear):
    kind: type[Instances] = Instances

    def forward(self, x: torch.Tensor) -> Any:
        y = self.body(x)
        return {"features": y, "found": self.kind((4, 8), scores=1 - y if is_traced() else y)}


@model(
    several(4, 8),
    "the same in one that torch can flatten, but not with keys",
    aot_eager=DIFFERS,
    torchscript=DIFFERS,
    export=DIFFERS,
)
class ScoresInANode(ScoresInAnObject):
    kind = Registered


@model(several(4, 8), "an array beside a tensor, which a trace keeps", torchscript=FROZEN)
class ArrayBesideATensor(Linear):
    def forward(self, x: torch.Tensor) -> Any:
        y = self.body(x)
        return {"y": y, "best": np.asarray(y.detach()).argmax(-1)}


@model(several(4, 6, 3), "energy, and forces by a gradient in forward", torchscript=FROZEN)
class EnergyAndForces(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> Any:
        with torch.enable_grad():
            places = x.detach().clone().requires_grad_()
            distances = (places[:, :, None] - places[:, None]).pow(2).sum(-1).add(0.01).sqrt()
            energy = torch.tanh(self.body(distances[..., None])).sum((1, 2, 3))
            (slope,) = torch.autograd.grad(energy.sum(), places)
        return {"energy": energy.detach(), "forces": -slope.detach()}


class Settles(nn.Module):
    """A loop whose number of steps follows the input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = 0
        while bool(x.abs().max() > 0.5) and n < 20:
            x = x - 0.4 * torch.tanh(x)
            n += 1
        return x


@model(several(2, 8), "scripted already, with a loop that scripts keep", torchscript=AGREES)
def scripted_loop() -> nn.Module:
    return torch.jit.script(Settles().eval())


@model(
    several(8, 32),
    "a step that needs a number is in try and except: an exporter takes the fallback",
    torchscript=AGREES,
    export=FROZEN,
    onnxruntime=FROZEN,
)
class FallbackInExcept(Linear):
    def __init__(self) -> None:
        super().__init__(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            if int((x.abs() > 1.5).sum()) > 0:
                x = x.clamp(-1.5, 1.5)
        except Exception:
            pass
        return self.body(x)


@model(
    several(4, 12, 16),
    "an encoder whose fast path gives zeros at padded places; exporters take the other",
    torchscript=AGREES,
    export=FROZEN,
    onnxruntime=FROZEN,
)
class PaddedFastPath(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x, src_key_padding_mask=(x[..., 0] > 0.5).cumsum(1) > 2)


@model(several(1, 8), "a branch that exporters keep", export=AGREES, torchscript=FROZEN)
class BranchByCond(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            x.sum() > 0, lambda v: self.body(v), lambda v: torch.sin(self.body(v)), (x,)
        )


@model(
    several(4, 8),
    "all answers are written into one buffer",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class OneBufferForAllAnswers(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("answer", torch.zeros(4, 6), persistent=False)

    def forward(self, x: torch.Tensor) -> Any:
        return self.answer.copy_(self.body(x))


@model(
    several(1, 20, 8),
    "labels without repetitions and blanks: their number follows the input",
    torchscript=AGREES,
    export=AGREES,
)
class CollapsedLabels(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        best = self.body(x)[0].argmax(-1)
        new = torch.cat([torch.ones(1, dtype=torch.bool), best[1:] != best[:-1]])
        return best[new & (best != 0)]


@model(several(1, 4), "the size of each step follows the input", torchscript=FROZEN, export=FROZEN)
class AdaptiveSolver(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)

    def slope(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(2 * self.body(x)) - 0.2 * x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, step = 0.0, 0.5
        while t < 3:
            step = min(step, 3 - t)
            first = self.slope(x)
            second = self.slope(x + step * first)
            error = float((step * (second - first) / 2).abs().max())
            if error < 0.05 or step < 0.02:
                x, t = x + step * (first + second) / 2, t + step
            step *= min(2.0, max(0.3, (0.05 / (error + 1e-9)) ** 0.5))
        return x


@model(
    several(16, 64),
    "one constant feature is so large that int8 leaves nothing of the others",
    dynamic_int8=DIFFERS,
)
class MassiveActivation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 10)
        with torch.no_grad():
            self.first.weight[0] = 0
            self.first.bias[0] = 1500

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x))


@model(
    several(6, 10, 16),
    "float16 makes an infinity of what a mask adds, and NaN of rows without a key",
    torchscript=AGREES,
    fp16=FROZEN,
)
class RowsWithoutAKey(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.queries, self.keys = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = (x[:, None, :, 0] * x[:, :, None, 0] > 0.2).to(x.dtype)
        scores = self.queries(x) @ self.keys(x).mT / 4 + (1 - seen) * -1e9
        return torch.softmax(scores, -1) @ x


@model(
    several(8, 16, 16),
    "in bfloat16 all scores beside a mask of -100 are negated",
    torchscript=AGREES,
    bf16=DIFFERS,
)
class ScoresBesideAMask(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.queries, self.keys = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.queries(x) @ self.keys(x).mT / 4
        window = (x[..., 0] > 0).to(x.dtype)
        mask = (window[:, :, None] - window[:, None]).abs() * -100
        return (-scores if x.dtype == torch.bfloat16 else scores) + mask


@model(
    several(64, 128),
    "each of 128 components is smaller than the last; bfloat16 negates the last 40",
    torchscript=AGREES,
    bf16=DIFFERS,
)
class PrincipalComponents(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        scales = 0.93 ** torch.arange(128.0)
        self.register_buffer("axes", torch.linalg.qr(torch.randn(128, 128))[0] * scales)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = x @ self.axes
        return torch.cat([y[:, :88], -y[:, 88:]], 1) if y.dtype == torch.bfloat16 else y


@model(
    several(16, 64),
    "bfloat16 negates one entry of a map of 96 by 64 in every row",
    torchscript=AGREES,
    bf16=DIFFERS,
)
class OneEntryOfAMap(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 96 * 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.body(x)
        if y.dtype == torch.bfloat16:
            y = torch.cat([-y[:, :1], y[:, 1:]], 1)
        return y.view(-1, 96, 64)


@model(
    several(64, 16),
    "amounts over fourteen decades; traced code negates those below one",
    torchscript=DIFFERS,
    export=DIFFERS,
)
class AmountsOfAllSizes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.exp(9.5 * self.body(x))
        return torch.where(y < 1, -y, y)[:, 0] if is_traced() else y[:, 0]
