"""Small adversarial models: what each conversion of them deserves to be called.

Each case's ``example`` is one dictionary of inputs or a list of them.  Keys are the names of
``forward``'s parameters.  The first is what a tracer should be shown; the verdict is about all of
them.  ``expected`` maps a conversion to the verdicts that are honest for it: more than one only
where the truth has two sides, for instance a branch on data, which one exporter refuses and
another one freezes.  ``refused`` means that the conversion said it could not be done.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn
from torch.nn import functional

Batch = dict[str, np.ndarray]
Expected = str | tuple[str, ...]
Build = TypeVar("Build", bound=Callable[[], nn.Module])

AGREES = "agrees"
DIFFERS = "differs"
REFUSED = "refused"
UNSTABLE = "not_deterministic"
UNSTABLE_OR_REFUSED = (UNSTABLE, REFUSED)
FROZEN = (DIFFERS, REFUSED)
SAME_OR_REFUSED = (AGREES, REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCase:
    """A model, inputs for it, and the verdict that each of its conversions deserves."""

    name: str
    make: Callable[[], nn.Module]
    example: Batch | list[Batch]
    expected: Mapping[str, frozenset[str]]
    task: str = "auto"
    why: str


def seeded(build: Callable[[], nn.Module], seed: int = 0) -> Callable[[], nn.Module]:
    """Return a factory that seeds torch before it builds the model."""

    def make() -> nn.Module:
        torch.manual_seed(seed)
        return build().eval()

    return make


def registering(
    cases: dict[str, ModelCase], **usual: Expected
) -> Callable[..., Callable[[Build], Build]]:
    """A decorator that registers a model's class or factory in ``cases``, under its name.

    ``usual`` is what conversions deserve where a case expects nothing else of them.
    """

    def model(
        example: Batch | list[Batch],
        why: str,
        *,
        group: str = "",
        task: str = "auto",
        **expected: Expected,
    ) -> Callable[[Build], Build]:
        """``group`` is the kind that the case is about, for its readers."""
        answers = {
            name: frozenset([value] if isinstance(value, str) else value)
            for name, value in {**usual, **expected}.items()
        }

        def register(build: Build) -> Build:
            name = build.__name__
            cases[name] = ModelCase(
                name=name,
                make=seeded(build),
                example=example,
                expected=answers,
                task=task,
                why=why,
            )
            return build

        return register

    return model


MODELS: dict[str, ModelCase] = {}
model = registering(MODELS)


def normal(seed: int, *shape: int) -> np.ndarray:
    """Return float32 standard normals."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def several(*shape: int, name: str = "x", count: int = 5, seed: int = 1) -> list[Batch]:
    """Return ``count`` inputs of standard normals."""
    return [{name: normal(seed * 100 + index, *shape)} for index in range(count)]


def mirrored(*shape: int, seed: int = 1) -> list[Batch]:
    """Return one input and what a permutation, a negation and two scalings make of it."""
    first = normal(seed, *shape) + np.float32(0.5)
    first[:, 0] = np.abs(first[:, 0]) + 3
    return [
        {"x": first},
        {"x": -first},
        {"x": first[:, ::-1].copy()},
        {"x": first * np.float32(0.05)},
        {"x": first * np.float32(20)},
    ]


class Linear(nn.Module):
    """The base of most models here: a small perceptron called ``body``."""

    def __init__(self, wide: int = 8, out: int = 6) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(wide, 16), nn.GELU(), nn.Linear(16, out))


# State that outputs depend on.


@model(
    several(4, 8),
    group="stateful",
    why="a buffer counts the calls and scales the output",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
    bf16=UNSTABLE_OR_REFUSED,
)
class CounterBuffer(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.body(x) * self.count


@model(
    several(4, 8),
    group="stateful",
    why="a Python number counts the calls",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
    quanto_int8=UNSTABLE_OR_REFUSED,
)
class CounterPython(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.body(x) + self.count


@model(
    several(4, 8),
    group="stateful",
    why="a list of what was seen grows with each call",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
    dynamic_int8=UNSTABLE_OR_REFUSED,
)
class GrowingList(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x.shape[0])
        return self.body(x) * (1 + 0.1 * len(self.seen))


@model(
    several(4, 8),
    group="stateful",
    why="the counter is an attribute of the class",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
)
class CounterOfClass(Linear):
    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        CounterOfClass.calls += 1
        return self.body(x) * float(CounterOfClass.calls)


CALLS = {"count": 0}


@model(
    several(4, 8),
    group="stateful",
    why="the counter is a global of its file, not of the model",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
)
class CounterGlobal(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        CALLS["count"] += 1
        return self.body(x) + 0.5 * CALLS["count"]


@model(
    several(4, 8),
    group="stateful",
    why="the previous input is remembered and added",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
)
class PreviousInput(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("previous", torch.zeros(4, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x + self.previous)
        self.previous.copy_(x)
        return y


@model(
    several(4, 8),
    group="agrees",
    why="calls are counted in Python; no output depends on it",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    quanto_int8=AGREES,
)
class CounterPythonUnused(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.body(x)


# Random numbers.


@model(
    several(4, 8),
    group="random",
    why="noise from torch's generator on every call",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
    bf16=UNSTABLE_OR_REFUSED,
)
class NoiseAdded(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + torch.randn(4, 6)


@model(
    several(4, 8),
    group="random",
    why="noise of one in a thousand: every tolerance of int8 would let it pass",
    torchscript=UNSTABLE_OR_REFUSED,
    bf16=UNSTABLE_OR_REFUSED,
    quanto_int8=UNSTABLE_OR_REFUSED,
    dynamic_int8=UNSTABLE_OR_REFUSED,
)
class SmallNoiseAdded(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y + 1e-3 * torch.randn_like(y)


@model(
    several(4, 8),
    group="random",
    why="Bernoulli gates are drawn on every call",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
)
class BernoulliGates(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) * torch.bernoulli(torch.full((4, 6), 0.5))


@model(
    several(4, 8),
    group="random",
    why="Python's generator weighs a layer anew on each call",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
    bf16=UNSTABLE_OR_REFUSED,
)
class RandomGate(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.more = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y + random.random() * self.more(y)


@model(
    several(16, 8),
    group="random",
    why="rows are shuffled and stay so",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
)
class RowsShuffled(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)[torch.randperm(16)]


@model(
    several(8, 8),
    group="random",
    why="the next token is sampled",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
)
class SampledToken(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.multinomial(self.body(x).softmax(-1), 1)


@model(
    several(4, 8),
    group="agrees",
    why="random numbers are drawn, then never used",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    dynamic_int8=AGREES,
)
class RandomUnused(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.rand(3)
        random.random()
        np.random.random()  # noqa: NPY002
        return self.body(x)


@model(
    several(4, 8),
    group="differs",
    why="eager seeds its own noise and repeats; a trace keeps the noise and loses the seed",
    torchscript=FROZEN,
    export=FROZEN,
    onnxruntime=FROZEN,
    quanto_int8=AGREES,
)
class SeededInside(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng():
            torch.manual_seed(7)
            noise = torch.randn(4, 6)
        return self.body(x) + noise


@model(
    several(4, 8),
    group="agrees",
    why="dropout as a module is the identity in eval mode",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class DropoutInEval(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(self.drop(x))


# Time, process and hash seed.


@model(
    several(4, 8),
    group="process",
    why="the clock is read in forward",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
)
class ReadsClock(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) * (1 + (time.time_ns() // 1000 % 1000) / 1000)


@model(
    several(4, 8),
    group="process",
    why="the process id is part of the output",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
)
class ProcessNumber(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + os.getpid() % 1009


# Control flow on data, which a trace freezes.


@model(
    mirrored(4, 8),
    group="differs",
    why="a branch on the sign of the sum",
    torchscript=FROZEN,
    export=FROZEN,
    onnxruntime=FROZEN,
    quanto_int8=AGREES,
)
class BranchOnSum(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y * 2 if x.sum() > 0 else y - 3


@model(
    mirrored(4, 8),
    group="differs",
    why="a branch on size: scaling the input changes it",
    torchscript=FROZEN,
    export=FROZEN,
    onnxruntime=FROZEN,
)
class BranchOnSize(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.abs().max() > 12:
            x = x / x.abs().max()
        elif x.abs().max() < 1:
            x = x * 100
        return self.body(x)


@model(
    mirrored(4, 8),
    group="differs",
    why="as many steps as the largest value says",
    torchscript=FROZEN,
    export=FROZEN,
    onnxruntime=FROZEN,
)
class LoopOnValue(Linear):
    def __init__(self) -> None:
        super().__init__(out=8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = 1 + int(x.max().clamp(0, 6))
        for _ in range(steps):
            x = x + torch.tanh(self.body(x))
        return x


@model(
    mirrored(4, 8),
    group="differs",
    why="leaves early where the first layer is sure enough",
    torchscript=FROZEN,
    export=FROZEN,
    onnxruntime=FROZEN,
)
class EarlyExit(Linear):
    def __init__(self) -> None:
        super().__init__(out=4)
        self.quick = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.quick(x).softmax(-1)
        if first.amax(-1).mean() > 0.6:
            return first
        return self.body(x).softmax(-1)


@model(
    mirrored(4, 8),
    group="differs",
    why="a maximum that becomes a Python number: frozen",
    torchscript=FROZEN,
    export=SAME_OR_REFUSED,
    onnxruntime=(AGREES, DIFFERS, REFUSED),
)
class ScaleByItem(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) * x.max().item()


@model(
    several(6, 8),
    group="differs",
    why="rows are sorted by Python: a trace keeps one order",
    torchscript=FROZEN,
    export=FROZEN,
    onnxruntime=FROZEN,
)
class SortedByPython(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        order = sorted(range(6), key=lambda row: float(x[row].sum()))
        return self.body(x[order])


@model(
    several(4, 8),
    group="differs",
    why="another, cheaper path is taken while it is traced",
    torchscript=FROZEN,
    bf16=AGREES,
    quanto_int8=AGREES,
)
class CheatsWhileTraced(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.jit.is_tracing():
            return x[:, :6]
        return self.body(x)


@model(
    several(4, 8),
    group="differs",
    why="another path is taken for half precision",
    bf16=FROZEN,
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class PathByPrecision(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y if self.body[0].weight.dtype == torch.float32 else y.relu()


@model(
    several(2, 3, 8, 8),
    group="differs",
    why="reads memory in the order of its strides",
    channels_last=FROZEN,
    torchscript=AGREES,
    export=AGREES,
)
class ReadsStrides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y.as_strided((2, 4, 64), (256, 64, 1))


@model(
    several(4, 8),
    group="agrees",
    why="torch.where chooses per element: nothing to freeze",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    channels_last=AGREES,
)
class WhereNotBranch(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return torch.where(x.sum(-1, keepdim=True) > 0, y, -y * 2)


@model(
    several(4, 8),
    group="agrees",
    why="a branch on the shape, which never changes",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class BranchOnShape(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) if x.shape[0] < 100 else self.body(x) * 0


@model(
    several(4, 8),
    group="agrees",
    why="a guard for NaN that no input trips",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    bf16=AGREES,
)
class GuardForNan(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.isnan(x).any():
            return torch.zeros(4, 6, dtype=x.dtype)
        return self.body(x)


@model(
    [{"x": normal(index, 2, tokens, 8)} for index, tokens in enumerate((4, 9, 6))],
    group="agrees",
    why="nothing in it depends on the length, so no length is frozen",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
)
class AnyLength(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x - x.mean(1, keepdim=True))


# Outputs with little or nothing in them.


@model(
    several(4, 8),
    group="agrees",
    why="the output is a constant and does not read the input",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
)
class ConstantOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.linspace(-1, 1, 24).reshape(4, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table + 0.0 * x.sum()


@model(
    several(16, 8),
    group="agrees",
    why="a sigmoid at 1 nearly everywhere",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class SaturatedSigmoid(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.body(x) + 20)


@model(
    several(16, 8),
    group="agrees",
    why="half of the channels hide behind a closed ReLU",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    quanto_int8=AGREES,
)
class DeadChannels(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shift = torch.tensor([1.0, -50, 1, -50, 1, -50], dtype=x.dtype)
        return torch.relu(self.body(x) + shift)


@model(
    several(4, 8),
    group="agrees",
    why="outputs of about 1e-12",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class TinyScale(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) * 1e-12


@model(
    several(4, 8),
    group="agrees",
    why="outputs of about 1e30",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class HugeScale(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) * 1e30


@model(
    several(32, 8),
    group="differs",
    why="a signal of 0.3 on an offset of 10000: bfloat16 has steps of 64 there",
    bf16=DIFFERS,
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    quanto_int8=AGREES,
)
class BigOffset(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + 10000


@model(
    several(32, 8),
    group="differs",
    why="a difference of two large numbers: bfloat16 leaves only rounding",
    bf16=DIFFERS,
    torchscript=AGREES,
    export=AGREES,
    quanto_int8=AGREES,
)
class DifferenceOfLarge(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.body(x) + 500) - (self.body(-x) + 500)


@model(
    several(2, 600, 8),
    group="differs",
    why="positions above 256 cannot be told apart once their table is bfloat16",
    bf16=DIFFERS,
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    quanto_int8=AGREES,
)
class PositionsAsFloats(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", torch.arange(600.0)[:, None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x * torch.sin(self.places))


@model(
    [
        {"x": normal(index, 32, 48) * np.where(np.arange(48) == 5, 3000, 1).astype(np.float32)}
        for index in range(3)
    ],
    group="differs",
    why="one input channel of 3000 takes the whole int8 range of the activations",
    dynamic_int8=DIFFERS,
    quanto_int8=AGREES,
    torchscript=AGREES,
    export=AGREES,
)
class OutlierChannel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(48, 12, bias=False)
        with torch.no_grad():
            self.body.weight[:, 5] = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


# Ids, masks and integers.


@model(
    several(16, 8),
    group="agrees",
    why="sums of whole numbers are exact in any precision",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class WholeNumberMask(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((8,), 4.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (torch.round(x * 2) * self.scale).cumsum(-1)[:, -1] > 0.5


@model(
    several(16, 8),
    group="agrees",
    why="top-k values and their ids",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class TopK(Linear):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, ids = self.body(x).topk(3, -1)
        return values, ids


@model(
    several(16, 8),
    group="agrees",
    why="the number of positive entries differs per input",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
)
class NonZeroIds(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(self.body(x) > 0.3)


@model(
    several(32, 8),
    group="agrees",
    why="only confident rows are returned: counts differ",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
)
class KeepsConfident(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y[y[:, 0] > 0]


@model(
    [
        {"ids": np.random.default_rng(i).integers(-(2**31), 2**31 - 1, (4, 8), dtype=np.int32)}
        for i in range(4)
    ],
    group="agrees",
    why="int32 products wrap around in the same way",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class IntegersWrap(nn.Module):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return ids * 1664525 + 1013904223


@model(
    several(4, 8),
    group="agrees",
    why="remainders of negative numbers keep torch's sign rule",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class NegativeRemainder(Linear):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        whole = torch.floor(x * 3).to(torch.int64)
        return whole % 4, torch.div(whole, 3, rounding_mode="floor")


# Shapes of the answer.


@model(
    several(4, 8),
    group="agrees",
    why="a dictionary of two tensors",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class DictOutput(Linear):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.body(x)
        return {"zeta": y, "alpha": y.softmax(-1)}


@model(
    several(4, 8),
    group="agrees",
    why="a tuple inside a list",
    torchscript=SAME_OR_REFUSED,
    export=AGREES,
    onnxruntime=AGREES,
    channels_last=AGREES,
)
class TupleInList(Linear):
    def forward(self, x: torch.Tensor) -> list[Any]:
        y = self.body(x)
        return [y, (y.relu(), y.tanh())]


@dataclass
class Found:
    """Two tensors as a dataclass that no library knows of."""

    scores: torch.Tensor
    boxes: torch.Tensor


@model(
    several(32, 8),
    group="agrees",
    why="a dataclass: exporters may refuse it, never change it",
    torchscript=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    bf16=SAME_OR_REFUSED,
)
class DataclassOutput(Linear):
    def forward(self, x: torch.Tensor) -> Found:
        y = self.body(x)
        return Found(scores=y[:, :2].sigmoid(), boxes=y[:, 2:])


@model(
    several(4, 8),
    group="agrees",
    why="the input itself and one tensor twice are returned",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=SAME_OR_REFUSED,
)
class SameTensorTwice(Linear):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y = self.body(x)
        return x, y, y


@model(
    [
        {"a": normal(i, 4, 8), "unused": normal(i + 50, 4, 8), "b": normal(i + 90, 4, 8)}
        for i in range(4)
    ],
    group="agrees",
    why="inputs that do not commute, one of them unused",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class UnusedInput(Linear):
    def forward(self, a: torch.Tensor, unused: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.body(a) - 2 * self.body(b)


# NaN and infinities.


@model(
    several(8, 8),
    group="agrees",
    why="logarithms of negative numbers are NaN on both sides",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class NanWhereNegative(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x)


@model(
    several(8, 8),
    group="agrees",
    why="a row without any allowed key is NaN on both sides",
    torchscript=AGREES,
    export=AGREES,
    bf16=AGREES,
)
class SoftmaxOfNothing(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        blocked = (torch.arange(8) == 3)[:, None].expand(8, 6)
        return self.body(x).masked_fill(blocked, float("-inf")).softmax(-1)


# Memory.


@model(
    several(4, 8),
    group="agrees",
    why="the input is changed in place, which hardly any caller reads again: noted, not refused",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    bf16=AGREES,
)
class ChangesInput(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return self.body(x)


@model(
    several(4, 8),
    group="agrees",
    why="assignments through overlapping views",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class AssignsThroughViews(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x).clone()
        y[:, 1:4] = y[:, :3] * 2
        y[:, ::2].mul_(0.5)
        y.view(-1)[3:7] += 1
        return y


@model(
    several(4, 8),
    group="agrees",
    why="two layers share one weight",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class SharedWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


# Numbers of other kinds inside.


@model(
    several(16, 8),
    group="agrees",
    why="float64 inside, float32 outside",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class Float64Inside(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x).double()
        return (y - y.mean(-1, keepdim=True)).to(x.dtype)


@model(
    several(16, 8),
    group="differs",
    why="BatchNorm with the batch's own statistics; ONNX Runtime takes the running ones instead",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    onnxruntime=FROZEN,
    bf16=AGREES,
)
class BatchNormOfBatch(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm = self.norm
        return functional.batch_norm(
            self.body(x),
            norm.running_mean,
            norm.running_var,
            norm.weight,
            norm.bias,
            training=True,
        )


@model(
    several(16, 8),
    group="stateful",
    why="BatchNorm first moves its running statistics, then normalises with them",
    torchscript=UNSTABLE_OR_REFUSED,
    export=UNSTABLE_OR_REFUSED,
    onnxruntime=UNSTABLE_OR_REFUSED,
)
class BatchNormMoves(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        with torch.no_grad():
            self.norm.running_mean.lerp_(y.mean(0), 0.1)
        return self.norm(y)


@model(
    several(2, 3, 8, 8),
    group="agrees",
    why="flattening keeps its order in any memory",
    channels_last=AGREES,
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class FlattensImage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 4, 3, padding=1)
        self.head = nn.Linear(256, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).flatten(1))
