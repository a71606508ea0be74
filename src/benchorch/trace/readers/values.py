"""Numbers and text from fields of unreliable types: exporters write 7, 7.0, "7" and "0x7"."""

import math
from collections.abc import Sequence

import numpy as np

from benchorch.trace.arrays import Bools, Floats, Int64s
from benchorch.trace.events import NOTHING
from benchorch.units import NS_PER_US

MOST_NS = 2**61  # two of them still add up to an int64
_LONGEST_WORD = 16_384
_UNSIGNED_NOTHING = 2**32 - 1  # -1 by exporters that print it unsigned
_MOST = 2**62


def integer(value: object) -> int:
    """The whole number that a field means; NOTHING if it means none."""
    try:
        if isinstance(value, str):
            number = int(value, 0) if "x" in value.lower() else int(value)
        elif isinstance(value, int | float):
            number = int(value)
        else:
            return NOTHING
    except (ValueError, OverflowError):  # no number, NaN, infinity
        return NOTHING
    return number if abs(number) < _MOST and number != _UNSIGNED_NOTHING else NOTHING


def microseconds(value: object) -> float:
    """The time that a field means; NaN if it means none."""
    try:
        return float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return math.nan


def word(value: object) -> str:
    """A field as text that can be printed: whole numbers without a point, bounded in length."""
    if isinstance(value, bool | float) and value == value and abs(value) < _MOST:
        value = int(value) if value == int(value) else value
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text[:_LONGEST_WORD].encode("utf-8", "replace").decode("utf-8")


def integers(values: Sequence[object]) -> Int64s:
    """Column of integers; NOTHING where a field means none."""
    if values.count(NOTHING) == len(values):
        return np.broadcast_to(np.int64(NOTHING), len(values))  # takes no memory
    try:
        column = np.array(values, dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        column = np.array([integer(value) for value in values], dtype=np.int64)
    if column.ndim != 1:
        column = np.array([integer(value) for value in values], dtype=np.int64)
    column[(column == _UNSIGNED_NOTHING) | (column >= _MOST) | (column <= -_MOST)] = NOTHING
    return column


def nanoseconds(values: Sequence[object]) -> tuple[Int64s, Bools]:
    """One column of times out of microseconds with decimals, and which of them are times.

    ``round(us * 1000)`` is exact as long as a double holds the microseconds with three
    decimals: up to 9e12 us, a hundred days. Where it is no time the column has 0.
    """
    with np.errstate(over="ignore"):
        scaled = _floats(values) * NS_PER_US
    known = np.abs(scaled) <= MOST_NS
    return np.where(known, np.rint(scaled), 0.0).astype(np.int64), known


def _floats(values: Sequence[object]) -> Floats:
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        column = np.empty(0)
    if column.shape != (len(values),):
        column = np.array([microseconds(value) for value in values], dtype=np.float64)
    return column
