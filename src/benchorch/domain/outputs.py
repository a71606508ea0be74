"""Structure of a model's outputs: the path of each tensor, and the values that are not tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Array

Leaf = TypeVar("Leaf")

_ALONE = "0"
"""Name of a sole output tensor, equal to that of the first element of a tuple."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The leaves of what a model returns, in the order of torch's flattening.

    Attributes:
        tensors: dotted path of each tensor, ``past.0.1``; empty where it is all that is returned.
        constants: value of everything else by its path, as it was when it was traced; None also
            for what is in `unknown`.
        unknown: paths of values that depend on an open size, or that cannot be compared at all.
        operators: those of the program by dtype, and how many of them are casts; what a compiler
            makes of a program keeps its dtypes.
    """

    tensors: tuple[str, ...]
    constants: Mapping[str, Json] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    operators: Mapping[str, Json] = field(default_factory=dict)

    def named(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Tensors by their paths, and the other values as arrays without axes; None is left out.

        Args:
            tensors: in this order, whatever they are called; they keep their names where there
                are more or fewer of them than here.
        """
        if len(tensors) != len(self.tensors):
            return dict(tensors)
        paths = [path or _ALONE for path in self.tensors]
        values = {path: _array(each) for path, each in self.constants.items() if each is not None}
        return dict(zip(paths, tensors.values(), strict=True)) | values

    def file_names(self, taken: Sequence[str] = ()) -> list[str]:
        """Unique names for a file's outputs; empty where the model names none of them.

        Args:
            taken: names that no output may have, such as the inputs'.
        """
        if not any(map(is_name, self.tensors)):
            return []
        names: list[str] = []
        for path in self.tensors:
            name = path if not path[:1].isdigit() else f"output_{path}"
            while name in (*taken, *names):
                name += "_out"
            names.append(name)
        return names


def is_name(path: str) -> bool:
    """Whether a part of the path is more than a position."""
    return not path.replace(".", "").isdigit() and bool(path)


def nested(outputs: Mapping[str, Leaf]) -> dict[str, object]:
    """Outputs by path in the structure that the model returned.

    A dict, dataclass or named tuple becomes a dict, a list or tuple a tuple. The outermost one is
    always a dict, so that a tensor that is all that is returned is under ``0``.
    """
    tree: dict[str, object] = {}
    for path, leaf in outputs.items():
        *above, last = path.split(".")
        place = tree
        for part in above:
            place = place.setdefault(part, {})  # type: ignore[assignment]
        place[last] = leaf
    return {name: _with_tuples(each) for name, each in tree.items()}


def _with_tuples(tree: object) -> object:
    if not isinstance(tree, dict):
        return tree
    inside = {name: _with_tuples(each) for name, each in tree.items()}
    return tuple(inside.values()) if list(inside) == list(map(str, range(len(inside)))) else inside


def _array(value: Json) -> Array:
    import numpy as np

    array: Array = np.asarray(value)
    return array if array.dtype.kind != "O" else np.asarray(str(value))  # a number beyond 64 bits
