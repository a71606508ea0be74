"""Which host call started which work of a device, and how late at the earliest?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.events import NOTHING

_REMOVED_RATIO = 0.999
"""Of launches that seem to come after what they started, those that a corrected clock mends."""
_MANY_RATIO = 0.001
"""So few launches may seem late before the device's clock is doubted."""


def join(
    call: NDArray[np.int64], call_ns: NDArray[np.int64], work: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """For each correlation of device work the index of the call with it, or NOTHING.

    One call may have started many kernels, as a graph launch does. Of several calls with the same
    correlation the first one counts; how many others there were is the second result.

    Parameters
    ----------
    call, call_ns : int64 arrays, shape (c,)
        Correlations and start times of host calls.
    work : int64 array, shape (d,)
        Correlations of device work.
    """
    order = np.lexsort((call_ns, call))
    order = order[call[order] != NOTHING]
    known = call[order]
    first = np.diff(known, prepend=NOTHING) != 0
    order, unique = order[first], known[first]
    if not len(unique):
        return np.full(len(work), NOTHING, dtype=np.int64), 0
    at = np.minimum(np.searchsorted(unique, work), len(unique) - 1)
    return np.where(unique[at] == work, order[at], NOTHING), len(known) - len(unique)


def skew_ns(latency_ns: NDArray[np.int64]) -> int:
    """By how much a device's clock is slow, from the times between launches and their starts.

    0 where hardly any launch seems to come after what it started; else the least shift that
    removes all but a thousandth of those. Integer nanoseconds, >= 0; 0 for no launch.
    """
    early = -latency_ns[latency_ns < 0]
    if len(early) <= _MANY_RATIO * len(latency_ns):
        return 0
    return int(np.quantile(early, _REMOVED_RATIO, method="higher"))
