"""How short does the same thing get when nothing is in its way?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_QUANTILE = 0.05
"""The least may be a clock's error; a twentieth of the samples lies below the floor."""


def percentile_floors(
    values_ns: NDArray[np.int64],
    group: NDArray[np.signedinteger[Any]],
    groups: int,
    missing_ns: int = 0,
) -> NDArray[np.int64]:
    """The fifth percentile of every group's samples, (groups,) in ns.

    An observed value, never one in between; of one or two samples the least. Groups without a
    sample get `missing_ns`.
    """
    floor = np.full(groups, missing_ns, dtype=np.int64)
    order = np.lexsort((values_ns, group))
    values_ns, group = values_ns[order], group[order]
    known, first, count = np.unique(group, return_index=True, return_counts=True)
    floor[known] = values_ns[first + ((count - 1) * _QUANTILE).astype(np.int64)]
    return floor
