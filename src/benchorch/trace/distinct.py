"""Distinct values of a column and their places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

COUNTED_SPAN = 4
"""Up to so many times as many values as entries could be, they are counted instead of sorted."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """Of a column of n whole numbers the D different ones.

    Attributes:
        values: (D,) ascending.
        first: (D,) where each comes first.
        place: (n,) of each entry its value's.
    """

    values: NDArray[np.int64]
    first: NDArray[np.int64]
    place: NDArray[np.int64]


def distinct(column: NDArray[np.integer]) -> Distinct:
    """The same as `numpy.unique`; small numbers are looked up without sorting. n may be 0."""
    least = int(column.min(initial=0))
    span = int(column.max(initial=0)) - least + 1
    if span > COUNTED_SPAN * len(column) + 1_000:
        values, first, place = np.unique(column, return_index=True, return_inverse=True)
        return Distinct(values=values.astype(np.int64), first=first, place=place)
    offset = column.astype(np.int64) - least
    first_of = np.full(span, -1, dtype=np.int64)
    first_of[offset[::-1]] = np.arange(len(column) - 1, -1, -1)  # the first is written last
    found = np.flatnonzero(first_of >= 0)
    number = np.empty(span, dtype=np.int64)
    number[found] = np.arange(len(found))
    return Distinct(values=found + least, first=first_of[found], place=number[offset])


def ascending(column: NDArray[np.integer]) -> NDArray[np.int64]:
    """The stable order of a column, (n,); small numbers are sorted digit by digit, in O(n)."""
    short = np.iinfo(np.int16)
    small = column.min(initial=0) >= short.min and column.max(initial=0) <= short.max
    return np.argsort(column.astype(np.int16) if small else column, kind="stable")
