"""Arrays and models of a reviewer who wants *yes* beside a wrong model, or *no* beside a right one.

Written from the gate's page and from what PyTorch allows, not from the code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from parity_corpus.models import (
    AGREES,
    DIFFERS,
    FROZEN,
    SAME_OR_REFUSED,
    Linear,
    ModelCase,
    normal,
    registering,
    several,
)
from parity_corpus.pairs import FLOAT32, INT8, INT8_WEIGHTS, Case, alone, generator

BUILDERS: dict[str, Callable[[], Case]] = {}


def arrays(expected: Any, *, tolerance: float, why: str, task: str = "auto") -> Callable[..., Any]:
    """Register a function that returns references and outputs: lists of arrays, one an input."""

    def register(build: Callable[[], tuple[list[np.ndarray], list[np.ndarray]]]) -> Any:
        def whole() -> Case:
            references, outputs = build()
            return Case(
                name=build.__name__,
                references=alone(*references),
                outputs=alone(*outputs),
                tolerance=tolerance,
                task=task,
                expected=expected,
                why=why,
            )

        BUILDERS[build.__name__] = whole
        return build

    return register


def edited(
    references: list[np.ndarray], edit: Callable[[np.ndarray], None]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """References, and copies of them that were edited in place."""
    outputs = [value.copy() for value in references]
    for value in outputs:
        edit(value)
    return references, outputs


def put(where: Any, value: Any) -> Callable[[np.ndarray], None]:
    """Set some entries."""

    def edit(array: np.ndarray) -> None:
        array[where] = value(array[where]) if callable(value) else value

    return edit


def noisy(references: list[np.ndarray], ratio: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """References, and the same with an error of a given share of each value."""
    noise = generator(99)
    return references, [
        (value * (1 + ratio * noise.standard_normal(value.shape))).astype(value.dtype)
        for value in references
    ]


def eight(*shape: int, scale: float = 1.0) -> list[np.ndarray]:
    """Outputs of the eight inputs."""
    return [normal(700 + index, *shape) * np.float32(scale) for index in range(8)]


# Numbers at the ends of their types.


@arrays(DIFFERS, tolerance=FLOAT32, why="the imaginary parts have the other sign")
def spectrum_conjugated() -> Any:
    values = [
        (a + 1j * b).astype(np.complex64)
        for a, b in zip(eight(4, 9), eight(4, 9)[::-1], strict=True)
    ]
    return values, [value.conj() for value in values]


@arrays(AGREES, tolerance=FLOAT32, why="complex numbers with the rounding of float32")
def spectrum_rounded() -> Any:
    values = [
        (a + 1j * b).astype(np.complex64)
        for a, b in zip(eight(4, 9), eight(4, 9)[::-1], strict=True)
    ]
    return noisy(values, 2e-7)


@arrays(DIFFERS, tolerance=FLOAT32, why="squares overflow float32; a row is negated")
def near_largest_float_row_negated() -> Any:
    return edited(eight(16, 8, scale=3e37), put(3, lambda row: -row))


@arrays(AGREES, tolerance=FLOAT32, why="squares of these values overflow float32; all is well")
def near_largest_float() -> Any:
    return noisy(eight(16, 8, scale=3e37), 1e-7)


@arrays(DIFFERS, tolerance=FLOAT32, why="all values are denormal, and were flushed to zero")
def denormals_flushed() -> Any:
    return edited(eight(16, 8, scale=1e-40), put(..., 0))


@arrays(AGREES, tolerance=FLOAT32, why="tails of a softmax that are denormal were flushed to zero")
def softmax_tails_flushed() -> Any:
    values = eight(16, 8)
    for value in values:
        value[:, 1:] = 1e-41
        value[:, 0] = 1
    return edited(values, put((slice(None), slice(1, None)), 0))


@arrays(DIFFERS, tolerance=INT8, why="one value of 4096 overflowed to infinity")
def one_overflow() -> Any:
    return edited(eight(64, 64), put((5, 7), np.inf))


@arrays(DIFFERS, tolerance=FLOAT32, why="hashes of 61 bits, wrong in the last, which no double has")
def long_hashes_off_by_one() -> Any:
    values = [generator(i).integers(2**60, 2**61, (8, 4)) for i in range(8)]
    return edited(values, put(..., lambda value: value ^ 1))


@arrays(DIFFERS, tolerance=INT8, why="pixels of one byte: white became black in a column")
def bytes_wrapped() -> Any:
    values = [np.full((4, 32, 32), 255, np.uint8) for _ in range(8)]
    return edited(values, put((slice(None), slice(None), 3), 0))


# Small parts that matter.


@arrays(
    DIFFERS,
    tolerance=INT8_WEIGHTS,
    why="quiet rows, a thirtieth of the others, are all zero: no signal of theirs is left",
)
def quiet_rows_lost() -> Any:
    values = eight(16, 64)
    for value in values:
        value[:6] /= 30
    return edited(values, put(slice(0, 6), 0))


@arrays(
    DIFFERS,
    tolerance=INT8_WEIGHTS,
    why="the last of 64 generated ids is wrong in every row of every input",
    task="ids",
)
def last_id_always_wrong() -> Any:
    values = [generator(i).integers(0, 30000, (8, 64)) for i in range(8)]
    return edited(values, put((slice(None), -1), lambda ids: (ids + 7) % 30000))


@arrays(
    DIFFERS,
    tolerance=INT8,
    why="one of the eight inputs is answered with another one's outputs",
)
def one_input_stale() -> Any:
    values = eight(4, 16)
    return values, [*values[:5], values[4], *values[6:]]


@arrays(
    DIFFERS,
    tolerance=INT8_WEIGHTS,
    why="a small object, 36 pixels of 16384, has another class: the map misses it everywhere",
)
def small_object_lost() -> Any:
    values = []
    for index in range(8):
        value = np.zeros((1, 4, 128, 128), np.float32) + normal(index, 1, 4, 128, 128) * 0.1
        value[:, 0] += 6
        value[:, 0, 40:46, 40:46] -= 6
        value[:, 2, 40:46, 40:46] += 6
        values.append(value)

    def lose(value: np.ndarray) -> None:
        value[:, 0, 40:46, 40:46] += 6
        value[:, 2, 40:46, 40:46] -= 6

    return edited(values, lose)


@arrays(DIFFERS, tolerance=INT8, why="boxes beside the scores of others", task="detection")
def boxes_permuted() -> Any:
    values = []
    for index in range(8):
        random = generator(index)
        boxes, scores = random.uniform(0, 640, (1, 50, 4)), random.uniform(0, 1, (1, 50, 3))
        values.append(np.concatenate([boxes, scores], -1).astype(np.float32))
    return edited(values, put((..., slice(0, 4)), lambda boxes: boxes[:, ::-1].copy()))


@arrays(DIFFERS, tolerance=FLOAT32, why="eager found three boxes, the conversion none")
def boxes_vanish() -> Any:
    return eight(3, 6), [np.zeros((0, 6), np.float32)] * 8


@arrays(DIFFERS, tolerance=INT8, why="the loss, one number, has the other sign")
def scalar_negated() -> Any:
    return eight(), [-value for value in eight()]


# Models.

MODELS: dict[str, ModelCase] = {}
model = registering(MODELS)


@model(
    several(4, 8),
    group="hostile",
    why="every call writes its answer over the one before, in the same memory",
    torchscript=AGREES,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    bf16=AGREES,
)
class ReusesItsOutput(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("out", torch.zeros(4, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.out.copy_(self.body(x))
        return self.out


@model(
    several(4, 8),
    group="hostile",
    why="beside the logits a Python number that follows from the values: an export holds one",
    export=FROZEN,
    torchscript=FROZEN,
    onnxruntime=FROZEN,
    bf16=AGREES,
)
class CountsInPython(Linear):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return self.body(x), int((x > 0.3).sum())


@model(
    several(4, 8),
    group="hostile",
    why="beside the scores the word of the best class, which a trace holds as of its example",
    export=FROZEN,
    onnxruntime=FROZEN,
    bf16=AGREES,
)
class NamesItsAnswer(Linear):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        y = self.body(x)
        return {"scores": y, "word": "abcdef"[int(y[0].argmax())]}


@model(
    several(4, 8),
    group="hostile",
    why="computes otherwise where autocast is on",
    autocast_bf16=DIFFERS,
    export=AGREES,
    torchscript=AGREES,
)
class LooksAtAutocast(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y.float() * 2 if torch.is_autocast_enabled("cpu") else y


@model(
    several(4, 8),
    group="hostile",
    why="computes otherwise where gradients are recorded, as while it is traced",
    torchscript=(AGREES, DIFFERS, "refused"),
    export=(AGREES, DIFFERS, "refused"),
    bf16=AGREES,
)
class LooksAtGradients(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y * 2 if torch.is_grad_enabled() else y


@model(
    several(4, 8),
    group="hostile",
    why="weight and spectral norms, and a hook that doubles: all of it belongs to the model",
    torchscript=SAME_OR_REFUSED,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
    dynamic_int8=SAME_OR_REFUSED,
)
class ParametrizedWithHook(Linear):
    def __init__(self) -> None:
        super().__init__()
        torch.nn.utils.parametrizations.weight_norm(self.body[0])
        torch.nn.utils.parametrizations.spectral_norm(self.body[2])
        self.body[0].register_forward_hook(lambda module, args, output: output * 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


@model(
    several(4, 8),
    group="hostile",
    why="a submodule is compiled already",
    export=SAME_OR_REFUSED,
    bf16=AGREES,
    torchscript=SAME_OR_REFUSED,
)
class CompiledInside(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.compile(self.body, backend="eager")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class _Doubles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: torch.Tensor) -> torch.Tensor:
        return y * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


@model(
    several(4, 8),
    group="hostile",
    why="a function of its own with its own gradient",
    torchscript=SAME_OR_REFUSED,
    export=AGREES,
    onnxruntime=SAME_OR_REFUSED,
)
class OwnFunction(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Doubles.apply(self.body(x))


@model(
    several(4, 8),
    group="hostile",
    why="returns a sparse tensor, which is a set of places and values",
    bf16=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    torchscript=SAME_OR_REFUSED,
)
class SparseOutput(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x)).to_sparse()
