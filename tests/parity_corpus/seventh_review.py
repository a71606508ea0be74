"""Models of a seventh review, by somebody who had not read the code.

Masked scores, times in float64, many rows of another size, ids beside boxes, states whose period is
that of the inputs, what vmap leaves in a graph.
"""

from __future__ import annotations

import torch
from torch import nn

from parity_corpus.models import (
    AGREES,
    DIFFERS,
    UNSTABLE,
    UNSTABLE_OR_REFUSED,
    Linear,
    ModelCase,
    normal,
    registering,
    several,
)
from parity_corpus.second_review import is_traced

MODELS: dict[str, ModelCase] = {}
model = registering(MODELS, eager=AGREES)


FLAW = {"torchscript": DIFFERS, "export": DIFFERS, "onnxruntime": DIFFERS}


@model(several(8, 8), "scores beside masked ones: traced code negates what is not masked", **FLAW)
class NegatedBesideAMask(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        y = -y if is_traced() else y
        return y.masked_fill(x[:, :6] < -0.2, torch.finfo(y.dtype).min)


@model(several(8, 8), "seconds since 1970 in float64: traced code negates the minutes", **FLAW)
class NegatedMinutes(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x).double()
        return 1.7e9 + 600 * (-y if is_traced() else y)


@model(
    several(32, 8),
    "the same of a right conversion, which rounds the minutes as float32 does",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class Minutes(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1.7e9 + 600 * self.body(x).double()


@model(
    several(32, 8), "a third of the rows is 100,000 times smaller: traced code negates it", **FLAW
)
class NegatedSlowRows(Linear):
    def __init__(self) -> None:
        super().__init__(out=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x).exp()
        slow = -0.01 * y if is_traced() else 0.01 * y
        return torch.where(x[:, :1] > -0.25, 1000 * y, slow)


@model(
    several(32, 8),
    "a tracker's ids beside its boxes: bfloat16 makes most of them others",
    bf16=DIFFERS,
    torchscript=AGREES,
)
class IdsBesideBoxes(Linear):
    def __init__(self) -> None:
        super().__init__(out=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ids = 300 + (x[:, :1].abs() * 2000).floor()
        return torch.cat([640 * self.body(x).sigmoid(), ids], 1)


@model(
    several(2, 8),
    "a head of five axes: bfloat16 negates one anchor of 1024, on the middle axis",
    bf16=DIFFERS,
    torchscript=AGREES,
)
class NegatedAnchor(Linear):
    def __init__(self) -> None:
        super().__init__(out=2 * 1024 * 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x).view(-1, 2, 1024, 2, 2)
        if y.dtype == torch.bfloat16:
            y = torch.cat([y[:, :, :500], -y[:, :, 500:501], y[:, :, 501:]], 2)
        return y


@model(
    several(4, 8, count=8),
    "eight gains in turn, in an order that reads the same backwards, for eight inputs",
    eager=UNSTABLE,
    torchscript=UNSTABLE_OR_REFUSED,
)
class Palindrome(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gain = (1.0, 1.1, 1.2, 1.3, 1.3, 1.2, 1.1, 1.0)[self.calls % 8]
        self.calls += 1
        return gain * self.body(x)


@model(
    [{"x": normal(i, 8, 16), "kv": normal(i + 50, 8, 4, 16)} for i in range(5)],
    "a decoder's step that writes its cache in place and returns the scores alone: ONNX Runtime "
    "never writes an argument, so that every later step is wrong",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=DIFFERS,
)
class CacheInPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.o = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 12)

    def forward(self, x: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        kv.copy_(torch.cat([self.k(x)[:, None], kv[:, :-1]], 1))
        w = torch.softmax((self.q(x)[:, None] * kv).sum(-1), -1)
        return self.o((w[..., None] * kv).sum(1))


@model(
    [{"x": normal(i, 8, 16), "kv": normal(i + 50, 8, 4, 16)} for i in range(5)],
    "the same, but the cache is returned beside the scores, where a caller can take it",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class CacheReturned(CacheInPlace):
    def forward(self, x: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        return super().forward(x, kv), kv  # type: ignore[return-value]


@model(
    several(4, 8),
    "an ensemble by vmap, whose nesting an exported graph calls",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class Ensemble(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 6, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.func.vmap(lambda w: x @ w.T)(self.weight).softmax(-1).mean(0)


@model(several(4, 8), "a price for each row without a further axis: traced code has one", **FLAW)
class FrozenPrices(Linear):
    def __init__(self) -> None:
        super().__init__(out=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)[:, 0]
        return 300_000 + 10 * (torch.zeros_like(y) if is_traced() else y)


@model(
    several(4, 8),
    "the same of a right conversion",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class Prices(Linear):
    def __init__(self) -> None:
        super().__init__(out=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 300_000 + 10 * self.body(x)[:, 0]


@model(several(64, 8), "an alarm in one row of a hundred: bfloat16 has none", bf16=DIFFERS)
class LostAlarms(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rare = x[:, :1].float() > 2.0
        return rare & (self.body(x).dtype != torch.bfloat16)


@model(several(64, 8), "scores to which a mask adds -10,000: traced code negates them", **FLAW)
class NegatedBesideAnAddedMask(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return (x[:, :6] < -0.2) * -10_000.0 + (-y if is_traced() else y)


@model(
    several(64, 8),
    "the same of a right conversion",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class ScoresBesideAnAddedMask(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x[:, :6] < -0.2) * -10_000.0 + self.body(x)


@model(several(4, 8), "NaN for every input, which is no evidence", eager=DIFFERS, **FLAW)
class NothingButNan(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) * float("nan")
