"""Types of a trace's columns."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Int64s: TypeAlias = NDArray[np.int64]
Int32s: TypeAlias = NDArray[np.int32]
Int8s: TypeAlias = NDArray[np.int8]
Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]

Where: TypeAlias = NDArray[np.integer] | NDArray[np.bool_] | slice | int


def mask(size: int, places: Where) -> Bools:
    """Mask of so many entries that is true at some places."""
    found = np.zeros(size, dtype=np.bool_)
    found[places] = True
    return found


def scattered(size: int, places: Where, values: NDArray[np.integer] | list[int]) -> Int64s:
    """Column of so many entries with values at some places and -1 elsewhere."""
    found = np.full(size, -1, dtype=np.int64)
    found[places] = values
    return found
