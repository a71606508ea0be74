"""Joins of device work with the host calls that launched it, and the skew of their clocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.events import NOTHING

_REMOVED_RATIO = 0.999
"""Of launches that seem to come after what they started, those that a corrected clock mends."""
_MANY_RATIO = 0.001
"""So few launches may seem late before the device's clock is doubted."""


def calls_with(
    requested: NDArray[np.int64],
    calls: NDArray[np.int64],
    correlation: NDArray[np.int64],
    start_ns: NDArray[np.int64],
) -> tuple[NDArray[np.int64], int]:
    """For each requested correlation the call with it, or NOTHING.

    One call may have started many kernels, as a graph launch does. Of several calls with the same
    correlation the first one counts; how many others there were is the second result.

    Parameters
    ----------
    requested : int64 array, shape (d,)
    calls : int64 array, shape (c,)
        Indices of host calls into the two columns.
    """
    calls = calls[np.lexsort((start_ns[calls], correlation[calls]))]
    calls = calls[correlation[calls] != NOTHING]
    known = correlation[calls]
    first = np.diff(known, prepend=NOTHING) != 0
    calls, unique = calls[first], known[first]
    if not len(unique):
        return np.full(len(requested), NOTHING, dtype=np.int64), 0
    at = np.minimum(np.searchsorted(unique, requested), len(unique) - 1)
    return np.where(unique[at] == requested, calls[at], NOTHING), len(known) - len(unique)


def skew_ns(latency_ns: NDArray[np.int64]) -> int:
    """By how much a device's clock is slow, from the times between launches and their starts.

    0 where hardly any launch seems to come after what it started; else the least shift that
    removes all but a thousandth of those. Integer nanoseconds, >= 0; 0 for no launch.
    """
    early = -latency_ns[latency_ns < 0]
    if len(early) <= _MANY_RATIO * len(latency_ns):
        return 0
    return int(np.quantile(early, _REMOVED_RATIO, method="higher"))
