"""Symbolic shapes of input sets that were given as arrays: what they have in common, and not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Arrays, TensorSpec, common_rows

ROWS = "batch_size"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InputShapes:
    """The shapes of some input sets, with a symbol where the sets differ.

    Attributes:
        specs: of each tensor. The first size is ``batch_size`` where all tensors share it; others
            that differ between sets are ``size_1``, ``size_2``, ...
        largest: of each symbol.
        open: symbols that the sets have several sizes of.
    """

    specs: tuple[TensorSpec, ...]
    largest: Mapping[str, int]
    open: tuple[str, ...]

    @classmethod
    def of(cls, sets: Sequence[Arrays]) -> InputShapes:
        """The shapes of sets that hold the same names, axes and dtypes."""
        batched = all(common_rows(each) is not None for each in sets)
        symbols: dict[tuple[int, ...], str] = {}
        largest: dict[str, int] = {}
        varied: dict[str, None] = {}

        def symbol_of(axis: int, sizes: tuple[int, ...]) -> int | str:
            is_rows = batched and axis == 0
            if not is_rows and len(set(sizes)) == 1:
                return sizes[0]
            symbol = ROWS if is_rows else symbols.setdefault(sizes, f"size_{len(symbols) + 1}")
            largest[symbol] = max(sizes)
            if len(set(sizes)) > 1:
                varied[symbol] = None
            return symbol

        specs = [
            TensorSpec(
                name=name,
                shape=tuple(
                    symbol_of(axis, tuple(each[name].shape[axis] for each in sets))
                    for axis in range(array.ndim)
                ),
                dtype=array.dtype.name,
            )
            for name, array in sets[0].items()
        ]
        return cls(specs=tuple(specs), largest=largest, open=tuple(varied))

    def declared(self) -> dict[str, Json]:
        """Each tensor's shape and dtype, as ``model.inputs`` has them."""
        return {s.name: {"shape": list(s.shape), "dtype": s.dtype} for s in self.specs}
