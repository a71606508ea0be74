"""Further input sets made from one example, so that a conversion is not judged on one alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchorch.domain.tensors import Array, Arrays
from benchorch.frameworks.host_arrays import is_floating

if TYPE_CHECKING:
    from numpy.random import Generator


def varied(examples: Sequence[Arrays], count: int) -> list[Arrays]:
    """The examples as they are, then variations of them, until there are so many.

    Floating values are turned round, scaled down, permuted within their row, and negated where
    the example has both signs: they stay in the example's range. Whole numbers such as ids are
    permuted within their row. Masks, booleans and single whole numbers stay as they are, since most
    others of them mean nothing; so do floating zeros and ones where another tensor can vary. Where
    nothing can vary there are no further sets.

    Args:
        examples: at least one, the tensors of a call by name.
        count: of all sets together.
    """
    found = list(examples[:count])
    for number in range(len(found), count):
        made = _variation(examples[number % len(examples)], number)
        if not any(_equal(made, known) for known in found):
            found.append(made)
    return found


def _variation(example: Arrays, number: int) -> Arrays:
    import numpy as np

    rng = np.random.default_rng(number)
    made = {
        name: array if _is_mask(array) else _varied(array, number, rng)
        for name, array in example.items()
    }
    if not _equal(made, example):
        return made
    return {name: _varied(array, number, rng) for name, array in example.items()}


def _varied(array: Array, number: int, rng: Generator) -> Array:
    if is_floating(array) and array.size:
        return _varied_floats(array, number, rng)
    if array.dtype.kind in "iu" and array.size and not _is_mask(array):
        return _permuted(array, rng)
    return array


def _varied_floats(array: Array, number: int, rng: Generator) -> Array:
    """One of four variations in rotation; where it does not apply, a scaling.

    From the second turn on all of them are scaled, or they would be those of the first.
    """
    import numpy as np

    way = number % 4
    scale = array.dtype.type(rng.uniform(0.4, 0.9))
    if number >= 4 and array.ndim:
        array = array * scale  # type: ignore[operator]
    if way == 1 and array.ndim and array.shape[-1] > 1:
        return np.ascontiguousarray(array[..., ::-1])
    if way == 2 and bool((array < 0).any()) and bool((array > 0).any()):  # type: ignore[operator]
        return np.negative(array)
    if way == 3:
        return _permuted(array, rng)
    return array * scale  # type: ignore[operator]


def _permuted(array: Array, rng: Generator) -> Array:
    """The same values in another order within each row, or among the rows of a single column."""
    if array.ndim < 2 or array[0].size < 2:
        return rng.permutation(array) if array.ndim else array
    rows = array.reshape(len(array), -1)
    return rng.permuted(rows, axis=1).reshape(array.shape)


def _is_mask(array: Array) -> bool:
    return array.ndim > 0 and bool(((array == 0) | (array == 1)).all())


def _equal(some: Arrays, others: Arrays) -> bool:
    import numpy as np

    return all(np.array_equal(some[name], others[name]) for name in some)
