"""Sums over slices of an output, in one pass over blocks that fit into a processor's cache."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy import float64, generic
from numpy.typing import NDArray

Array = NDArray[generic]
Floats = NDArray[float64]
Blocks = tuple[slice, slice]

_BLOCK = 2**15
"""Values in a block: all that is made of one stays in the second-level cache."""

TERMS = 5
"""Terms: ``y - ref``, its square, ``ref``, its square, squared ``ref`` less float64's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FineSums:
    """Sums of the terms over all but an input, a row and a channel, from which others follow.

    Attributes:
        first: kept are the rows and the first axis after them, shape (terms, inputs, rows, n).
        between: likewise each axis of an output from its third to the last but one, by number.
        last: kept are the rows and the last axis, shape (terms, inputs, rows, m).
    """

    first: Floats
    between: Mapping[int, Floats]
    last: Floats


def fine_sums(pairs: Sequence[tuple[Array, Array]], exact: Sequence[Array]) -> FineSums:
    """The sums of all pairs of one shape.

    Parameters
    ----------
    pairs : sequence of two ndarrays of one shape, finite
        An output and its reference, one pair for each input.
    exact : sequence of ndarray of that shape, finite
        The reference in float64, for each input; empty where it is unknown.
    """
    shape = pairs[0][1].shape
    rows, first, _, last = _four(shape)

    def zeros(size: int) -> Floats:
        return np.zeros((TERMS, len(pairs), rows, size))

    sums = FineSums(
        first=zeros(first),
        between={axis: zeros(shape[axis]) for axis in range(2, len(shape) - 1)},
        last=zeros(last),
    )
    after = {axis: math.prod(shape[axis + 1 :]) for axis in sums.between}
    for number, pair in enumerate(pairs):
        given = (*pair, *exact[number : number + 1])
        for block, terms in _blocks(given):
            size = terms[0].shape
            for index, term in enumerate(terms):
                whole = term.reshape(*size[:2], -1)
                sums.first[(index, number, *block)] = whole.sum(axis=2)
                flat = term.reshape(size[0], -1, last)
                sums.last[index, number, block[0]] += flat.sum(axis=1)
                for axis, kept in sums.between.items():
                    cut = term.reshape(size[0], -1, shape[axis], after[axis])
                    kept[index, number, block[0]] += cut.sum(axis=(1, 3))
    return sums


def _blocks(given: Sequence[Array]) -> Iterator[tuple[Blocks, list[Floats]]]:
    """The terms of some rows, or of a part of one; both are in one place until the next block."""
    shape = _four(given[0].shape)
    arrays = [np.asarray(each).reshape(shape) for each in given]
    rows, first, middle, last = shape
    inner = middle * last
    some = max(1, _BLOCK // (first * inner))  # rows at a time
    part = max(1, _BLOCK // inner) if first * inner > _BLOCK else first
    for row in range(0, rows, some):
        for place in range(0, first, part):
            block = slice(row, row + some), slice(place, place + part)
            y, ref, *right = (each[block].astype(np.float64) for each in arrays)
            error = y - ref
            terms = [error, error * error, ref, ref * ref]
            yield block, [*terms, *((ref - wide) ** 2 for wide in right)]


def _four(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Rows, the first axis after them, all between, and the last; without rows, the first is."""
    if len(shape) < 3:
        return 1, shape[0], 1, (*shape, 1)[1]
    middle = 1
    for size in shape[2:-1]:
        middle *= size
    return shape[0], shape[1], middle, shape[-1]
