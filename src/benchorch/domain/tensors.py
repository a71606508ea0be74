"""Named tensors with symbolic shapes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from benchorch.domain.codec import Json

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[generic]
    Arrays: TypeAlias = Mapping[str, Array]
else:
    Array = Arrays = Any  # planning imports no numpy

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
"""Keys of a workload that are not symbols."""


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

    def admits(self, shape: Sequence[int], workload: Workload) -> bool:
        """Whether an array of that shape is one of these: of any size where one is left open."""
        expected = self.resolve(workload.symbols)
        return len(shape) == len(expected) and all(
            held == size or (symbol in workload.dynamic and held > 0)
            for held, size, symbol in zip(shape, expected, self.shape, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The values of a model's symbols, and what else fixes its inputs.

    Attributes:
        symbols: each symbol's whole number, e.g. ``{"batch_size": 1, "seq_len": 128}``.
        dtype: of the module and of every input that states none: float64, float32 or float16.
        seed: of weights and inputs.
        dynamic: symbols that an exported program leaves open.
        sizes: those of `dynamic` whose sizes the workload names: values that the inputs after the
            first take in turn, none above the symbol's own; empty for always the same.
    """

    symbols: Mapping[str, int]
    dtype: str = "float32"
    seed: int = 0
    dynamic: tuple[str, ...] = ()
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def of_input(self, number: int) -> Workload:
        """The workload of one of the inputs that calls rotate through; the first is as declared."""
        turns = {symbol: sizes for symbol, sizes in self.sizes.items() if sizes and number > 0}
        return self._with({s: sizes[(number - 1) % len(sizes)] for s, sizes in turns.items()})

    def of_other_sizes(self) -> tuple[Workload, ...]:
        """Workloads with other values of the symbols that are open and have no named sizes.

        An export that has fixed a size, or that multiplies by one, is right at the declared one.
        """
        unnamed = [symbol for symbol in self.dynamic if symbol not in self.sizes]
        known = [symbol for symbol in unnamed if symbol in self.symbols]
        if not known:
            return ()
        return tuple(
            self._with({symbol: other(self.symbols[symbol]) for symbol in known})
            for other in (half_size, _three_quarters)
        )

    def _with(self, symbols: Mapping[str, int]) -> Workload:
        return replace(self, symbols={**self.symbols, **symbols}) if symbols else self


def half_size(size: int) -> int:
    """Another size, and not 1, which tracers take for a constant."""
    return -(-size // 2) if size > 2 else 3


def _three_quarters(size: int) -> int:
    return -(-3 * size // 4) if size > 4 else size + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Concrete call of a model, for tracing steps and for runtimes.

    Attributes:
        arrays: each input tensor by the keyword of forward, in forward's order.
        keywords: arguments that are not tensors, passed as they are.
        specs: the symbolic shapes of `arrays`, in the same order.
        dynamic: symbols that must stay open in an export.
    """

    arrays: Arrays
    keywords: Mapping[str, Json]
    specs: tuple[TensorSpec, ...]
    dynamic: tuple[str, ...] = ()


def common_rows(arrays: Arrays) -> int | None:
    """The first size where all tensors that have one agree on it: the batch size."""
    rows = {array.shape[0] for array in arrays.values() if array.ndim}
    return rows.pop() if len(rows) == 1 else None


def digest_of_arrays(*sets: Arrays) -> str:
    """SHA-256 (hex) over names, dtypes, shapes and values of all of them."""
    import numpy as np

    total = hashlib.sha256()
    for name, array in (item for one in sets for item in one.items()):
        total.update(f"{name}|{array.dtype}|{array.shape}|".encode())
        total.update(np.ascontiguousarray(array).view(np.uint8).data)
    return total.hexdigest()
