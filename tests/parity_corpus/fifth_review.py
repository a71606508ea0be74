"""Models of a fifth review, by somebody who knew the code and looked for what it leaves out.

Whole numbers that rounding decides and such that it does not, state that shows late, structure
that a conversion may lose, errors that hide in one place of one input.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize

from parity_corpus.models import (
    AGREES,
    DIFFERS,
    FROZEN,
    SAME_OR_REFUSED,
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
EVERYWHERE = {
    "torchscript": UNSTABLE_OR_REFUSED,
    "export": UNSTABLE_OR_REFUSED,
    "onnxruntime": UNSTABLE_OR_REFUSED,
}


# Whole numbers that follow from rounding, and such that do not.


@model(
    several(2, 3, 64, 64),
    "a map of classes: of 8,192 pixels some are near-ties, and no score is an output",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class MapOfClasses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.GELU(), nn.Conv2d(32, 32, 3, padding=1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).argmax(1)


@model(several(2, 3, 64, 64), "one pixel of such a map is another class in traced code", **FLAW)
class OnePixelOfTheMap(MapOfClasses):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = super().forward(x)
        if is_traced():
            patch = functional.pad(torch.ones_like(found[:, :1, :1]), (10, 53, 10, 53))
            return (found + patch) % 32
        return found


@model(several(4, 256), "two ranks that are no near-tie change places in traced code", **FLAW)
class RanksExchanged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(256, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ranks = self.body(x).argsort(-1)
        return torch.cat([ranks[:, 15:], ranks[:, 1:15], ranks[:, :1]], 1) if is_traced() else ranks


@model(several(4, 64), "the last bits of scores as whole numbers: rounding alone decides", **FLAW)
class LastBits(nn.Module):
    """Nothing of it is a decision, so that nothing of it may be excused."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bits = (self.body(x) * 2.0**22).round().long() % 4
        return (bits + 1) % 4 if is_traced() else bits


@model(
    several(4, 256),
    "booleans of 1,024 sums beside a threshold",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
class ManyThresholds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(256, 1024)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) > 0


# State that shows late.


def late(calls: int) -> Any:
    """A model that answers otherwise after so many calls."""

    class Late(Linear):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.body(x) * (2.0 if self.calls > calls else 1.0)

    return Late


@model(several(4, 8), "doubles its answers after 70 calls", eager=UNSTABLE, **EVERYWHERE)
class After70(late(70)):  # type: ignore[misc]
    pass


@model(several(4, 8), "doubles its answers after 200 calls", eager=UNSTABLE, **EVERYWHERE)
class After200(late(200)):  # type: ignore[misc]
    pass


@model(several(4, 8), "the second of five inputs alone, after 100 calls", eager=UNSTABLE)
class LateForNegativeSums(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        late = self.calls > 100 and float(x.sum()) < 0
        return self.body(x) * (2.0 if late else 1.0)


# Structure.


class Doubled(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight * 2


@model(
    several(4, 8),
    "a weight that is tied to a parametrised one",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
class TiedToDoubled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(8, 8), nn.Linear(8, 8)
        parametrize.register_parametrization(self.one, "weight", Doubled())
        self.other.weight = self.one.parametrizations.weight.original

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.other(self.one(x))


class Metres(torch.Tensor):
    """A subclass that keeps its kind through operators."""


@model(
    several(4, 8),
    "outputs are of a subclass of tensors",
    torchscript=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    bf16=SAME_OR_REFUSED,
)
class ReturnsASubclass(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).as_subclass(Metres)


@model(several(4, 8), "two outputs of one shape change places in traced code", **FLAW)
class OutputsExchanged(Linear):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.body(x)
        first, second = (y.tanh(), y.sigmoid())[:: -1 if is_traced() else 1]
        return {"a": first, "b": second}


@model(several(6, 6), "a square output is transposed in traced code", **FLAW)
class Transposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y.T.contiguous() if is_traced() else y


@model(several(64, 8), "rows change places in pairs in traced code", **FLAW)
class RowsInPairs(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y.reshape(32, 2, 6).flip(1).reshape(64, 6) if is_traced() else y


@model(several(4, 12, 8), "tokens are late by one in traced code", **FLAW)
class TokensLate(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return torch.cat([y[:, :1], y[:, :-1]], 1) if is_traced() else y


# Errors in one place.


@model(several(8, 16, 8), "the last token of the last row is negated in traced code", **FLAW)
class OneTokenNegated(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        if not is_traced():
            return y
        sign = functional.pad(-2 * torch.ones_like(y[:1, :1, :1]), (0, 0, 15, 0, 7, 0))
        return y * (1 + sign)


@model(several(4, 8), "negative sums are answered by another sign in traced code", **FLAW)
class WrongForNegativeSums(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return torch.where(x.sum() < 0, -y, y) if is_traced() else y


@model(several(4, 8), "values beyond 2.5 are clipped in traced code", **FLAW)
class ClipsOutliers(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x.clamp(-1.5, 1.5) if is_traced() else x)


@model(
    several(4, 8),
    "an infinity of the other sign in traced code",
    torchscript=DIFFERS,
    export=DIFFERS,
    onnxruntime=DIFFERS,
)
class InfinityNegated(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        masked = y.masked_fill(y > 0.3, float("-inf"))
        return masked.masked_fill(y > 0.5, float("inf")) if is_traced() else masked


@model(
    several(4, 8),
    "a branch that eager takes for a few of the inputs alone",
    torchscript=FROZEN,
    export=FROZEN,
)
class BranchForAFew(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y * 3 if x[0, 0] == x[0].max() else y
