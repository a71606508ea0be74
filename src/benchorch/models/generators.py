"""The values of a generated input: four ways to fill an array from a seed.

A floating-point tensor that names none is normally distributed, a boolean one true and false.
"""

from __future__ import annotations

import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, final

from benchorch.config.components import fits, missing, misspelt, mistyped
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Array
from benchorch.errors import Correction, Problem
from benchorch.frameworks.host_arrays import numpy_dtype
from benchorch.models.declared import is_float

if TYPE_CHECKING:
    from numpy.random import Generator as Random

GENERATOR_OPTIONS = ("shape", "dtype", "generator")
"""Options that every generated tensor has besides its generator's own."""


class Generator(ABC):
    """Fills an array; deterministic in the random stream it is given."""

    @abstractmethod
    def complaints(self, dtype: str) -> list[str]:
        """Options whose values are invalid for this dtype, each as ``option: reason``."""

    @abstractmethod
    def fill(self, random: Random, shape: tuple[int, ...], dtype: str) -> Array:
        """The array."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Normal(Generator):
    """Normally distributed numbers."""

    mean: float = 0.0
    std: float = 1.0

    def complaints(self, dtype: str) -> list[str]:
        """A whole-number dtype, or a spread that is none."""
        found = [] if is_float(dtype) else [f"generator: normal gives no {dtype}; try integers"]
        if not (math.isfinite(self.std) and self.std >= 0):
            found.append(f"std: must be a number of at least 0, got {self.std}")
        if not math.isfinite(self.mean):
            found.append(f"mean: must be finite, got {self.mean}")
        return found

    def fill(self, random: Random, shape: tuple[int, ...], dtype: str) -> Array:
        """Drawn in double precision, so that every dtype rounds the same numbers."""
        drawn = random.normal(self.mean, self.std, size=shape)
        return _array(drawn, dtype)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Integers(Generator):
    """Whole numbers from `low` up to but not including `high`, all equally likely."""

    high: int
    low: int = 0

    def complaints(self, dtype: str) -> list[str]:
        """An empty range, or one that the dtype cannot hold."""
        if self.low >= self.high:
            return [f"low: must be below high, got low={self.low} and high={self.high}"]
        smallest, largest = _range(dtype)
        if self.low < smallest or self.high - 1 > largest:
            return [
                f"high: {dtype} holds {smallest} to {largest}, "
                f"got low={self.low} and high={self.high}"
            ]
        return []

    def fill(self, random: Random, shape: tuple[int, ...], dtype: str) -> Array:
        """Drawn as 64-bit numbers, so that every dtype holds the same ones."""
        return _array(random.integers(self.low, self.high, size=shape), dtype)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Mask(Generator):
    """Ones, each row ending in zeros for padding.

    Attributes:
        padding_ratio: the largest share of a row that may be padding; each row's own is drawn
            evenly from nothing to that. The first element of a row is always a one.
    """

    padding_ratio: float = 0.0

    def complaints(self, dtype: str) -> list[str]:
        """A share outside 0 to 1."""
        if 0 <= self.padding_ratio <= 1:
            return []
        return [f"padding_ratio: must lie between 0 and 1, got {self.padding_ratio}"]

    def fill(self, random: Random, shape: tuple[int, ...], dtype: str) -> Array:
        """Rows run along the last axis."""
        import numpy as np

        if not shape:
            return np.ones(shape, numpy_dtype(dtype))
        length = shape[-1]
        longest = min(int(self.padding_ratio * length), length - 1)
        padding = random.integers(0, longest, size=(*shape[:-1], 1), endpoint=True)
        return _array(np.arange(length) < length - padding, dtype)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Generator):
    """The same value everywhere."""

    value: float | bool

    def complaints(self, dtype: str) -> list[str]:
        """A value that the dtype cannot hold."""
        smallest, largest = _range(dtype)
        whole = math.isfinite(self.value) and float(self.value).is_integer()
        if is_float(dtype) or (whole and smallest <= self.value <= largest):
            return []
        return [f"value: {dtype} cannot hold {self.value}"]

    def fill(self, random: Random, shape: tuple[int, ...], dtype: str) -> Array:
        """Constant array; draws nothing."""
        import numpy as np

        return np.full(shape, self.value, numpy_dtype(dtype))


_KINDS: Mapping[str, type[Generator]] = {
    "normal": Normal,
    "integers": Integers,
    "mask": Mask,
    "constant": Constant,
}
"""The words of the YAML; a generator is a value of the inputs' small language, not a member."""


_EXAMPLES = {"high": 1000}
_ELSEWHERE = {
    **dict.fromkeys(("gaussian", "rand", "randn", "random", "uniform"), "normal"),
    **dict.fromkeys(("int", "randint", "tokens"), "integers"),
    **dict.fromkeys(("ones", "zeros", "full"), "constant"),
}
"""What other tools call a generator."""


def generator(node: Mapping[str, Json]) -> Generator:
    """The generator of a tensor that has no problems."""
    options = {key: value for key, value in node.items() if key not in GENERATOR_OPTIONS}
    return _KINDS[str(node["generator"])](**options)


def with_generator(node: Mapping[str, Json], dtype: str) -> Mapping[str, Json]:
    """The tensor with the usual generator of its dtype, where it names none and there is one."""
    usual: dict[str, Json] = {"generator": "normal"} if is_float(dtype) else {}
    if dtype == "bool":
        usual = {"generator": "integers", "high": 2}
    return node if node.get("generator") is not None else {**usual, **node}


def generator_problems(where: str, node: Mapping[str, Json], dtype: str) -> list[str]:
    """An unknown generator, options it does not have or lacks, values of a wrong type or size."""
    node = with_generator(node, dtype)
    name = node.get("generator")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        if name is None:
            return [missing(f"{where}.generator", "integers", "+")]
        problem = f"{where}.generator: unknown generator {name!r}."
        listed = f" Generators: {', '.join(_KINDS)}."
        if meant := _ELSEWHERE.get(str(name)):
            text = f"{problem} Did you mean {meant!r}?{listed}"
            return [Problem(text, Correction(typed=str(name), meant=meant))]
        return [misspelt(problem, str(name), _KINDS, listed)]
    options = {key: value for key, value in node.items() if key not in GENERATOR_OPTIONS}
    found = _option_problems(where, kind, options)
    return found or [f"{where}.{problem}." for problem in kind(**options).complaints(dtype)]


def _option_problems(where: str, kind: type[Generator], options: Mapping[str, Json]) -> list[str]:
    hints = typing.get_type_hints(kind)
    known = {field.name: field.default for field in fields(typing.cast(typing.Any, kind))}
    every = (*GENERATOR_OPTIONS, *known)
    found: list[str] = [
        misspelt(f"{where}.{key}: unknown option.", key, every, f" Options: {', '.join(every)}.")
        for key in options
        if key not in known
    ]
    found += [
        missing(f"{where}.{name}", str(_EXAMPLES.get(name, 1)), "+")
        for name, default in known.items()
        if default is MISSING and name not in options
    ]
    return found + [
        mistyped(f"{where}.{key}", hints[key], value)
        for key, value in options.items()
        if key in known and not fits(hints[key], value)
    ]


def _array(drawn: Array, dtype: str) -> Array:
    return drawn.astype(numpy_dtype(dtype))


def _range(dtype: str) -> tuple[float, float]:
    """The smallest and largest whole number that a dtype holds exactly."""
    if dtype == "bool":
        return 0, 1
    if is_float(dtype):
        exact = {"float64": 2**53, "float32": 2**24, "float16": 2**11}.get(dtype, 2**8)
        return -exact, exact
    bits = int(dtype.lstrip("uint"))
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
