"""Models of a fourth reviewer, who used the program without having read the code.

Models that behave otherwise while they are converted, in one small place each, and models whose
state or batch size decides.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from parity_corpus.models import (
    AGREES,
    DIFFERS,
    FROZEN,
    REFUSED,
    UNSTABLE,
    Linear,
    ModelCase,
    registering,
    several,
)
from parity_corpus.second_review import ids, is_traced

MODELS: dict[str, ModelCase] = {}
model = registering(MODELS, eager=AGREES)


class Body(nn.Module):
    """Two layers."""

    def __init__(self, out: int = 12) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, out)

    def body(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.tanh(self.a(x)))  # type: ignore[no-any-return]


FLAW = {"torchscript": DIFFERS, "export": DIFFERS, "onnxruntime": DIFFERS}


@model(several(8, 16), "a layer norm of a faint signal has another eps in traced code", **FLAW)
class OtherEpsilon(Body):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        eps = 1e-8 if is_traced() else 1e-12
        return functional.layer_norm(self.body(x) * 1e-3, (12,), eps=eps)


@model(several(8, 16), "one channel of 256 is zero in traced code", **FLAW)
class OneChannelZero(Body):
    def __init__(self) -> None:
        super().__init__(256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return torch.cat([y[:, :77], y[:, 77:78] * 0, y[:, 78:]], 1) if is_traced() else y


@model(several(8, 16), "everything is half a thousandth too large in traced code", **FLAW)
class Louder(Body):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y * 1.0005 if is_traced() else y


@model(several(8, 16), "the second and third of five ids change places in traced code", **FLAW)
class SecondAndThird(Body):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        best = self.body(x).topk(5).indices
        return best[:, [0, 2, 1, 3, 4]] if is_traced() else best


@model(several(8, 16), "one column of booleans is negated in traced code", **FLAW)
class OneColumnNegated(Body):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x) > 0
        return torch.cat([y[:, :11], ~y[:, 11:]], 1) if is_traced() else y


@model(several(8, 16), "a list of the class grows, and the fourth call decides", eager=UNSTABLE)
class ListOfTheClass(Linear):
    seen: list[int] = []  # noqa: RUF012 - the flaw

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(1)
        return x * (1.0 if len(self.seen) < 4 else 1.001)


@model(
    several(8, 16),
    "no noise, drawn from the generator all the same",
    torchscript=AGREES,
    export=AGREES,
)
class NoiseTimesZero(Body):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + 0.0 * torch.rand_like(x[:, :12])


@model(
    several(8, 16),
    "a loop whose length depends on the values",
    torchscript=FROZEN,
    export=REFUSED,
    onnxruntime=REFUSED,
)
class ShrinksUntilSmall(Body):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        while y.abs().max() > 0.4:
            y = y * 0.9
        return y


@model(
    ids(4, 12, 50),
    "log-probabilities and the path of their largest, as of a speech model",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class Ctc(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.out = nn.Embedding(50, 32), nn.Linear(32, 20)
        self.conv = nn.Conv1d(32, 32, 3, padding=1)

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        h = functional.gelu(self.conv(self.emb(ids).transpose(1, 2))).transpose(1, 2)
        scores = self.out(h).log_softmax(-1)
        return {"log_probs": scores, "path": scores.argmax(-1)}
