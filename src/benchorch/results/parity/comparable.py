"""Whether outputs can be compared at all: names, shapes and kinds."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy import generic
from numpy.typing import NDArray

Array = NDArray[generic]

_KINDS = {
    "f": "floating point",
    "c": "complex numbers",
    "i": "whole numbers",
    "u": "whole numbers",
    "b": "booleans",
    "U": "text",
    "S": "text",
    "O": "objects",
}


def unmatched(output: Mapping[str, Array], reference: Mapping[str, Array]) -> Iterator[str]:
    """A sentence for each output that only one side has."""
    for name in reference:
        if name not in output:
            yield f"output {name} is missing; there are: {', '.join(output) or 'none'}."
    for name in output:
        if name not in reference:
            yield f"output {name} is not among the reference's: {', '.join(reference) or 'none'}."
    if not reference:
        yield "the reference has no outputs to compare with."


def obstacle(name: str, y: Array, ref: Array) -> str | None:
    """Why two arrays cannot be compared value by value, or None."""
    if y.shape != ref.shape:
        return f"output {name} has shape {y.shape}; the reference has {ref.shape}."
    kinds = [_kind(array) for array in (y, ref)]
    if kinds[0] != kinds[1]:
        return f"output {name} holds {kinds[0]} ({y.dtype}); the reference {kinds[1]}."
    return None


def _kind(array: Array) -> str:
    if array.dtype.kind == "O" and all(isinstance(each, str) for each in array.flat):
        return _KINDS["U"]
    return _KINDS.get(array.dtype.kind, str(array.dtype))


def real(array: Array) -> Array:
    """Complex numbers as pairs of floats on one more axis; anything else as it is."""
    return np.stack([array.real, array.imag], axis=-1) if array.dtype.kind == "c" else array
