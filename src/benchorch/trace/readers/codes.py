"""Words of a column as small numbers, given out as they come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import count
from typing import final

import numpy as np
from numpy.typing import NDArray


@final
class Codes:
    """The distinct values of a column, each with its number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = defaultdict(count().__next__)

    @property
    def values(self) -> tuple[Hashable, ...]:
        """Every value so far, by its number."""
        return tuple(self._numbers)

    def encoded(self, values: Sequence[Hashable]) -> NDArray[np.int32]:
        """The numbers of some values; TypeError if one is a list or an object."""
        return np.fromiter(map(self._numbers.__getitem__, values), np.int32, len(values))
