"""Small adversarial models: what each conversion of them deserves to be called.

Each case's ``example`` is one dictionary of inputs or a list of them.  Keys are the names of
``forward``'s parameters.  The first is what a tracer should be shown; the verdict is about all of
them.  ``expected`` maps a conversion to the verdicts that are honest for it: more than one only
where the truth has two sides, for instance a branch on data, which one exporter refuses and
another one freezes.  ``refused`` means that the conversion said it could not be done.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from parity_corpus.models import (
    AGREES,
    DIFFERS,
    FROZEN,
    REFUSED,
    SAME_OR_REFUSED,
    UNSTABLE,
    UNSTABLE_OR_REFUSED,
    Batch,
    Linear,
    ModelCase,
    mirrored,
    normal,
    registering,
    several,
)

MODELS: dict[str, ModelCase] = {}
model = registering(MODELS)


def words(vocabulary: int, *shape: int, count: int = 5) -> list[Batch]:
    """Return ``count`` inputs of token ids."""
    return [
        {"ids": np.random.default_rng(index).integers(0, vocabulary, shape)}
        for index in range(count)
    ]


# State that outputs depend on.


@model(
    several(4, 8),
    group="stateful",
    why="forward moves the running mean that it subtracts",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
    bf16=UNSTABLE_OR_REFUSED,
)
class RunningMean(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.9).add_(0.1 * x.mean(0))
        return self.body(x - self.mean)


@model(
    several(4, 8),
    group="stateful",
    why="each call shrinks a parameter by one percent",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    bf16=UNSTABLE_OR_REFUSED,
)
class ShrinkingWeight(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        with torch.no_grad():
            self.body[0].weight.mul_(0.99)
        return y


@model(
    several(4, 8, count=5),
    group="stateful",
    why="the sign alternates: over an even number of calls it looks stable, it never agrees",
    torchscript=(UNSTABLE, DIFFERS, REFUSED),
    export=(UNSTABLE, DIFFERS, REFUSED),
    onnxruntime=(UNSTABLE, DIFFERS, REFUSED),
)
class AlternatingSign(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.sign = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sign = -self.sign
        return self.body(x) * self.sign


@model(
    several(4, 8),
    group="stateful",
    why="every seventh call is three times the others",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
)
class EverySeventhCall(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.body(x) * (3.0 if self.calls % 7 == 0 else 1.0)


@model(
    several(4, 8),
    group="agrees",
    why="calls are counted in a buffer that no output reads",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    bf16=AGREES,
)
class CounterUnused(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.body(x)


@model(
    several(4, 8),
    group="agrees",
    why="a table is computed on the first call and kept: the same outputs ever after",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    bf16=AGREES,
)
class TableOnFirstCall(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.table: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            self.table = torch.linspace(0, 1, 8).to(x)
        return self.body(x + self.table)


# Random numbers.


@model(
    several(4, 8),
    group="random",
    why="dropout stays active, whatever the mode",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
    quanto_int8=UNSTABLE_OR_REFUSED,
)
class DropoutAlways(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(functional.dropout(x, 0.3, training=True))


@model(
    several(4, 8),
    group="random",
    why="a factor from numpy's global generator",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
)
class NumpyRandom(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) * (1 + float(np.random.random()))  # noqa: NPY002


@model(
    several(4, 8),
    group="random",
    why="a variational bottleneck: mean stable, sample random",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
    bf16=UNSTABLE_OR_REFUSED,
)
class VariationalSample(Linear):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        mean, spread = self.body(x).chunk(2, -1)
        return {"mean": mean, "sample": mean + spread.exp() * torch.randn_like(mean)}


@model(
    several(16, 8),
    group="agrees",
    why="rows are shuffled and put back: no effect at all",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    bf16=AGREES,
)
class ShuffledAndPutBack(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        order = torch.randperm(16)
        return self.body(x[order][torch.argsort(order)])


# Time, process and hash seed.


@model(
    several(4, 8),
    group="process",
    why="the hash of a string changes with the process",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
)
class HashOfString(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) * (1 + hash("layer.weight") % 997)


@model(
    several(4, 8),
    group="agrees",
    why="heads are added in the order of a set of strings: only the last digit can move",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class SumInSetOrder(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Linear(6, 6) for name in ("red", "green", "blue")})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        total = torch.zeros_like(y)
        for name in {"red", "green", "blue"}:
            total = total + self.heads[name](y)
        return total


# Control flow on data, which a trace freezes.


@model(
    mirrored(4, 8),
    group="differs",
    why="a branch on which end of the row is larger",
    torchscript=FROZEN,
    export=FROZEN,
    onnxruntime=FROZEN,
)
class BranchOnOrder(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x if bool(x[0, 0] > x[0, -1]) else -x)


@model(
    mirrored(4, 8),
    group="differs",
    why="through numpy and back: a trace keeps one array",
    torchscript=FROZEN,
    export=FROZEN,
    channels_last=AGREES,
)
class ThroughNumpy(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = np.abs(x.detach().float().numpy()).mean(0)
        return self.body(x * torch.from_numpy(weight))


@model(
    mirrored(4, 8),
    group="differs",
    why="one input of five takes the other branch",
    torchscript=FROZEN,
    export=FROZEN,
    onnxruntime=FROZEN,
)
class RareBranch(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + (1.0 if x.abs().max() > 40 else 0.0)


@model(
    several(4, 8),
    group="differs",
    why="another path is taken while it is exported",
    export=FROZEN,
    torchscript=AGREES,
    quanto_int8=AGREES,
)
class CheatsWhileExported(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():
            return self.body(x).round()
        return self.body(x)


@model(
    [{"x": normal(index, rows, 8)} for index, rows in enumerate((3, 7, 5))],
    group="differs",
    why="a loop over the rows is unrolled for three; batches of seven lose four rows",
    torchscript=FROZEN,
    export=FROZEN,
    onnxruntime=FROZEN,
)
class LoopOverRows(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.body(x[row]) for row in range(len(x))])


# Outputs with little or nothing in them.


@model(
    several(4, 8),
    group="agrees",
    why="one head is multiplied by zero: zero is right",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class DeadHead(Linear):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.body(x)
        return {"alive": y, "dead": y * 0.0}


@model(
    several(16, 8),
    group="agrees",
    why="a softmax so sharp that all but one are about zero",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class SharpSoftmax(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.body(x) * 200, -1)


@model(
    several(32, 8),
    group="differs",
    why="a phase of a thousand turns amplifies any rounding",
    bf16=DIFFERS,
    quanto_int8=DIFFERS,
    torchscript=AGREES,
    export=AGREES,
)
class PhaseAmplified(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.body(x) * 3000)


@model(
    several(32, 48),
    group="differs",
    why="rows of weights from 0.001 to 1000: one int8 scale for all of them zeroes the small",
    dynamic_int8=DIFFERS,
    quanto_int8=AGREES,
    bf16=AGREES,
    torchscript=AGREES,
)
class RowsOfAllSizes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(48, 12, bias=False)
        with torch.no_grad():
            self.body.weight.mul_(torch.logspace(-3, 3, 12)[:, None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


# Ids, masks and integers.


@model(
    several(16, 8),
    group="agrees",
    why="two equal columns tie; either id is right",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class TiedArgmax(Linear):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.body(x)
        logits = torch.cat([y, y], -1)
        return {"logits": logits, "ids": logits.argmax(-1)}


@model(
    words(50, 4, 12),
    group="agrees",
    why="token ids in, equal masks and ids out",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class MaskAndIds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 8)

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"mask": ids > 3, "next": (ids + 1) % 50, "states": self.table(ids)}


# Shapes of the answer.


class Answer(NamedTuple):
    """Two tensors with names."""

    logits: torch.Tensor
    hidden: torch.Tensor


@model(
    several(4, 8),
    group="agrees",
    why="a named tuple",
    torchscript=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    bf16=AGREES,
)
class NamedOutput(Linear):
    def forward(self, x: torch.Tensor) -> Answer:
        hidden = self.body[:2](x)
        return Answer(self.body[2](hidden), hidden)


@model(
    several(4, 8),
    group="agrees",
    why="None, a number and a word beside a tensor",
    torchscript=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    bf16=AGREES,
)
class NoneNumberWord(Linear):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"logits": self.body(x), "loss": None, "classes": 6, "kind": "logits"}


@model(
    several(4, 8),
    group="agrees",
    why="a scalar and an empty tensor beside the rest",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=SAME_OR_REFUSED,
    bf16=AGREES,
)
class ScalarAndEmpty(Linear):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y = self.body(x)
        return y.mean(), y[:0], y


# NaN and infinities.


@model(
    several(8, 8),
    group="agrees",
    why="forbidden classes are -inf on both sides",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class MinusInfinityMask(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        forbidden = torch.tensor([False, True, False, False, True, False])
        return self.body(x).masked_fill(forbidden, float("-inf"))


# Memory.


@model(
    several(4, 8),
    group="agrees",
    why="the input is changed in place and returned",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    quanto_int8=AGREES,
)
class ReturnsChangedInput(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x[:, :6].add_(self.body(x))
        return x


# Numbers of other kinds inside.


@model(
    several(4, 32),
    group="agrees",
    why="a complex spectrum inside, its size outside",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=SAME_OR_REFUSED,
    quanto_int8=AGREES,
)
class SpectrumSize(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(17, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(torch.fft.rfft(x).abs())


@model(
    [{"image": normal(index, 1, 3, 64, 64)} for index in range(4)],
    group="agrees",
    why="boxes in pixels beside scores below one, all in one tensor",
    task="detection",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    quanto_int8=AGREES,
    channels_last=AGREES,
)
class BoxesAndScores(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.SiLU(), nn.Conv2d(16, 32, 3, 4, 1), nn.SiLU()
        )
        self.boxes = nn.Conv2d(32, 4, 1)
        self.scores = nn.Conv2d(32, 20, 1)
        with torch.no_grad():
            self.scores.bias.fill_(-3)
            self.scores.weight.mul_(10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.body(image)
        boxes = self.boxes(features).sigmoid() * 640
        return torch.cat([boxes, self.scores(features).sigmoid()], 1).flatten(2)
