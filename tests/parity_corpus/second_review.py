"""Models of a second reviewer, written from the gate's page before the code was opened.

The last eight were kept unseen until the gate had been changed.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import Thread
from typing import Any

import numpy as np
import torch
from torch import nn

from parity_corpus.models import (
    AGREES,
    DIFFERS,
    FROZEN,
    REFUSED,
    SAME_OR_REFUSED,
    UNSTABLE,
    Linear,
    ModelCase,
    registering,
    several,
)

MODELS: dict[str, ModelCase] = {}
model = registering(MODELS, eager=AGREES)
ANYTHING_BUT_SAME = (DIFFERS, UNSTABLE, REFUSED)


def ids(rows: int, length: int, most: int) -> list[dict[str, np.ndarray]]:
    """Several inputs of whole numbers."""
    draw = np.random.default_rng
    return [{"ids": draw(seed).integers(0, most, (rows, length))} for seed in range(5)]


def is_traced() -> bool:
    """Whether a tracer or an exporter looks on."""
    return torch.jit.is_tracing() or torch.compiler.is_compiling()


_spreads: dict[tuple[int, ...], torch.Tensor] = {}


def spread(x: torch.Tensor) -> torch.Tensor:
    return _spreads.setdefault(tuple(x.shape), x.std())


@model(
    several(4, 8),
    "a global keeps the spread of the first input of each shape",
    eager=UNSTABLE,
    torchscript=UNSTABLE,
    onnxruntime=UNSTABLE,
)
class KeepsTheFirstSpread(Linear):
    def __init__(self) -> None:
        super().__init__()
        _spreads.clear()  # as in a new process

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) / spread(x)


@model(
    several(4, 8),
    "a sparse tensor stands for the dense one",
    torchscript=SAME_OR_REFUSED,
    bf16=AGREES,
)
class ReturnsSparse(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x)).to_sparse()


@model(
    several(4, 8),
    "rows of several lengths have no dense values",
    eager=REFUSED,
    torchscript=REFUSED,
    onnxruntime=REFUSED,
)
class ReturnsJagged(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return torch.nested.nested_tensor([y[:1], y[1:]], layout=torch.jagged)


@model(
    several(8, 8),
    "as many rows as are positive, which an export has to leave open",
    torchscript=AGREES,
    onnxruntime=SAME_OR_REFUSED,
    export=AGREES,
)
class KeepsPositiveRows(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x[x[:, 0] > 0])


@model(
    ids(4, 32, 100),
    "the last token is another one's in traced code",
    torchscript=DIFFERS,
    export=DIFFERS,
    onnxruntime=DIFFERS,
)
class LastTokenRolled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(100, 32), nn.Linear(32, 100)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        y = self.head(self.table(ids))
        return torch.cat([y[:, :-1], y[:, -1:].roll(1, -1)], 1) if is_traced() else y


@model(
    several(8, 32),
    "one channel of 512 is 2 % too large in traced code",
    torchscript=DIFFERS,
    export=DIFFERS,
    onnxruntime=DIFFERS,
)
class OneChannelScaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(32, 512)
        self.register_buffer("by", torch.ones(512).index_fill_(0, torch.tensor([77]), 1.02))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) * self.by if is_traced() else self.body(x)


@model(
    several(4, 8),
    "outputs of 1e-30: float16 has none of them",
    torchscript=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
    fp16=FROZEN,
)
class BeyondFloat16(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) * 1e-30


@model(several(4, 256), "ranks of 256 near scores", onnxruntime=AGREES, bf16=DIFFERS)
class RanksOfNearScores(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).argsort(-1)


class Pair(tuple[Any, ...]):
    """A tuple whose constructor takes two arguments."""

    def __new__(cls, first: Any, second: Any) -> Pair:
        return super().__new__(cls, (first, second))


@model(
    several(4, 8),
    "a subclass of tuple, with its own constructor",
    torchscript=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    bf16=AGREES,
)
class ReturnsPair(Linear):
    def forward(self, x: torch.Tensor) -> Pair:
        y = self.body(x)
        return Pair(y, y.relu())


@model(
    several(4, 8),
    "a list of as many tensors as rows have a positive sum",
    torchscript=FROZEN,
    export=REFUSED,
    onnxruntime=REFUSED,
)
class ReturnsAsManyAsThereAre(Linear):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        y = self.body(x)
        return [row for row in y if row.sum() > 0] or [y[0]]


@model(
    several(4, 8),
    "the power iteration of a spectral norm goes on in each call",
    eager=UNSTABLE,
    torchscript=(UNSTABLE, DIFFERS),
)
class NormMovesOn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.utils.spectral_norm(nn.Linear(8, 6))

    def train(self, mode: bool = True) -> NormMovesOn:
        super().train(mode)
        self.body.training = True
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)  # type: ignore[no-any-return]


@model(
    several(8, 16),
    "scores of 1e-4 beside boxes of a hundred are zero in traced code",
    torchscript=DIFFERS,
    export=DIFFERS,
)
class FaintScoresLost(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.boxes, self.scores = nn.Linear(16, 4), nn.Linear(16, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.scores(x) * (0 if is_traced() else 1e-4)
        return torch.cat([self.boxes(x) * 100, scores], -1)


# Unseen until the end.


@lru_cache
def table(length: int, width: int) -> torch.Tensor:
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(width)[None] / width)
    return torch.cat([angles.sin(), angles.cos()], -1)


@model(
    several(4, 12, 8),
    "a cache holds tables of positions, which follow from the shape alone",
    torchscript=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class CachesPositions(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x + table(x.shape[1], 4).to(x.dtype))


@model(
    several(4, 32),
    "sizes of the spectrum are right in traced code, phases are not",
    torchscript=DIFFERS,
    export=DIFFERS,
)
class SpectrumConjugated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.fft.rfft(self.body(x))
        return y.conj().resolve_conj() if is_traced() else y


@model(
    several(4, 8),
    "another thread computes half of it, which a trace does not see",
    torchscript=FROZEN,
    export=(AGREES, DIFFERS, REFUSED),
    bf16=AGREES,
)
class HalfInAThread(Linear):
    def _half(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self.body(x)  # type: ignore[no-any-return]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with ThreadPoolExecutor(1) as pool:
            return self.body(x) + pool.submit(self._half, x).result()  # type: ignore[no-any-return]


@model(
    several(8, 64),
    "its own bfloat16, in which ONNX Runtime has no Gemm: sums in another order are no other model",
    torchscript=AGREES,
    onnxruntime=SAME_OR_REFUSED,
    export=AGREES,
)
class OwnAutocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.GELU(), nn.Linear(64, 64))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.body(x).float()  # type: ignore[no-any-return]


@model(
    several(8, 64),
    "one flag of 64 is never set in traced code",
    torchscript=DIFFERS,
    export=DIFFERS,
)
class OneFlagNeverSet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flags = self.body(x) > 0
        return flags & (torch.arange(64) != 5) if is_traced() else flags


@model(
    ids(4, 16, 1000),
    "products beyond 32 bits",
    torchscript=AGREES,
    onnxruntime=AGREES,
    export=AGREES,
)
class HashesIds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return (ids * 2654435761 + 40503) % 1000003


@model(
    several(4, 33),
    "quantiles of each row",
    torchscript=AGREES,
    onnxruntime=SAME_OR_REFUSED,
)
class QuantilesOfRows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(33, 33)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at = torch.tensor([0.1, 0.5], dtype=x.dtype)
        return torch.quantile(self.body(x), at, dim=-1)


@model(
    several(4, 8),
    "a thread in the background moves a scale on",
    eager=UNSTABLE,
    torchscript=ANYTHING_BUT_SAME,
)
class ScaleMovesOn(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.started = [1.0], False

    def _move(self) -> None:
        while True:
            time.sleep(0.002)
            self.scale[0] += 0.01

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.started:
            self.started = True
            Thread(target=self._move, daemon=True).start()
        time.sleep(0.003)
        return self.body(x) * self.scale[0]
