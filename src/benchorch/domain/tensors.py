"""Named tensors with symbolic shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchorch.domain.codec import Json

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

DTYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)


NOT_SYMBOLS = frozenset({"dtype", "seed", "dynamic"})
"""What a workload holds besides the values of symbols."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One input tensor.

    Attributes:
        name: the keyword of the model's forward.
        shape: whole numbers and symbols, e.g. ``("batch_size", "seq_len")``.
        dtype: one of `DTYPES`.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of the shape, in order of appearance."""
        return tuple(dict.fromkeys(size for size in self.shape if isinstance(size, str)))

    def resolve(self, symbols: Mapping[str, int]) -> tuple[int, ...]:
        """The shape in whole numbers; KeyError names a symbol without a value."""
        return tuple(symbols[size] if isinstance(size, str) else size for size in self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The values of a model's symbols, and what else fixes its inputs.

    Attributes:
        symbols: each symbol's whole number, e.g. ``{"batch_size": 1, "seq_len": 128}``.
        dtype: of the module and of every input that states none: float64, float32 or float16.
        seed: of weights and inputs.
        dynamic: symbols that an exported program leaves open.
    """

    symbols: Mapping[str, int]
    dtype: str = "float32"
    seed: int = 0
    dynamic: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One concrete call of a model: what steps trace with and runtimes are fed.

    Attributes:
        arrays: each input tensor by the keyword of forward, in forward's order.
        keywords: arguments that are not tensors, passed as they are.
        specs: the symbolic shapes of `arrays`, in the same order.
        dynamic: symbols that must stay open in an export.
    """

    arrays: Mapping[str, NDArray[generic]]
    keywords: Mapping[str, Json]
    specs: tuple[TensorSpec, ...]
    dynamic: tuple[str, ...] = ()
