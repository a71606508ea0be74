"""Models of a sixth review, by somebody who had not read the code.

What one call in thirty does, streams that carry their state, signals below an offset of each row's
own, targets in units of several magnitudes.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from parity_corpus.models import (
    AGREES,
    DIFFERS,
    FROZEN,
    UNSTABLE,
    UNSTABLE_OR_REFUSED,
    Linear,
    ModelCase,
    registering,
    several,
)
from parity_corpus.second_review import is_traced

MODELS: dict[str, ModelCase] = {}
model = registering(MODELS, eager=AGREES)


FLAW = {"torchscript": DIFFERS, "export": DIFFERS, "onnxruntime": DIFFERS}
SAME = {"torchscript": AGREES, "export": AGREES, "onnxruntime": AGREES}


@model(
    several(4, 8),
    "one call in thirty leaves a branch out: few calls do not show it",
    eager=UNSTABLE,
    torchscript=(UNSTABLE, DIFFERS, "refused"),
    onnxruntime=(UNSTABLE, DIFFERS, "refused"),
)
class LeavesABranchOut(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y + self.branch(y) * (torch.rand(()) > 1 / 30)


@model(
    several(4, 8),
    "a recurrent layer goes on from a twentieth of where the last call ended",
    eager=UNSTABLE,
    torchscript=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
)
class GoesOn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.GRU(2, 6, batch_first=True)
        self.last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = torch.zeros(1, x.shape[0], 6) if self.last is None else self.last / 20
        y, end = self.cells(x.view(-1, 4, 2), start)
        self.last = end.detach()
        return y


@model(
    several(4, 8),
    "it seeds the generator in each call, which a graph leaves out",
    torchscript=(DIFFERS, UNSTABLE, "refused"),
    export=(DIFFERS, UNSTABLE, "refused"),
    onnxruntime=(DIFFERS, UNSTABLE, "refused"),
)
class SeedsItself(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(7)
        return self.body(x) + torch.randn(6) / 10


@model(
    several(64, 8),
    "a branch on the last of 64 rows scales that row alone by three percent",
    torchscript=FROZEN,
    export=FROZEN,
)
class BranchOfOneRow(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return torch.cat([y[:-1], y[-1:] * 1.03]) if x[-1].mean() > 0 else y


@model(
    several(4, 8),
    "targets whose units fall by four from each to the next: traced code loses the last two",
    **FLAW,
)
class FallingUnits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x) / 4.0 ** torch.arange(10)
        return functional.pad(y[:, :8], (0, 2)) if is_traced() else y


@model(
    several(4, 8),
    "logits above an offset of each row's own, which softmax ignores: traced code negates them",
    **FLAW,
)
class NegatedAboveAnOffset(Linear):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.body(x) / 200
        return {"logits": 90 + 90 * x[:, :1].square() + (-y if is_traced() else y)}


@model(several(4, 8), "attention of queries that have no key at all", **SAME)
class NoKeyAtAll(Linear):
    def __init__(self) -> None:
        super().__init__(out=24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.body(x).view(-1, 3, 4, 2).unbind(1)
        seen = (k[..., 0] > 0.2)[:, None].expand(-1, 4, -1)
        scores = (q @ k.transpose(1, 2)).masked_fill(~seen, float("-inf"))
        shares = torch.where(seen.any(-1, keepdim=True), scores.softmax(-1), torch.zeros(()))
        return shares @ v
