"""Models of an eighth review, by somebody who had read the code.

What real repositories do: answers by a rounded key, a pool that goes on after the call, noise that
the input determines, outputs that are None for some inputs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

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


@model(
    several(4, 8),
    "a second output is None where nothing is above a threshold",
    torchscript=FROZEN,
    onnxruntime=FROZEN,
)
class NoneWhenNothing(Linear):
    def forward(self, x: torch.Tensor) -> Any:
        y = self.body(x)
        return y, (y.relu() if float(x[0, 0]) > -0.5 else None)


@model(
    several(4, 8),
    "answers are kept by the input's rounded mean, so that other inputs get them",
    eager=UNSTABLE,
    torchscript=UNSTABLE_OR_REFUSED,
)
class MemoisesByRoundedMean(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.known: dict[float, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if is_traced():
            return self.body(x)
        return self.known.setdefault(round(float(x.mean()), 1), self.body(x))


@model(
    several(4, 8),
    "a thread moves a gain on after each call has returned",
    eager=UNSTABLE,
    torchscript=UNSTABLE_OR_REFUSED,
)
class UpdatesInThePool(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.pool: ThreadPoolExecutor | None = None
        self.gain = [1.0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.pool = self.pool or ThreadPoolExecutor(1)
        y = self.body(x) * self.gain[0]
        self.pool.submit(lambda: self.gain.__setitem__(0, self.gain[0] * 1.01))
        return y


@model(
    several(4, 8),
    "numpy draws noise that only the input determines: a trace keeps the first one's",
    torchscript=DIFFERS,
    onnxruntime=FROZEN,
)
class NoiseOfItsInput(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rng = np.random.default_rng(int(abs(float(x.sum())) * 1000))
        drawn = torch.from_numpy(rng.standard_normal((4, 6), dtype=np.float32))
        return self.body(x) + 0.05 * drawn


@model(several(64, 8), "bfloat16 makes a plateau of saturated scores", bf16=DIFFERS)
class PlateauArgmax(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(6 + self.body(x)).argmax(-1)
