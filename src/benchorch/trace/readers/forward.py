"""Which thread ran the forward operators that backward operators belong to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.events import NOTHING


def forward_lanes(
    sequence: NDArray[np.int64],
    forward_thread: NDArray[np.int64],
    lane: NDArray[np.int32],
    start_ns: NDArray[np.int64],
) -> NDArray[np.int32]:
    """For each event with a forward thread the lane of that thread; NOTHING for the others.

    PyTorch numbers threads its own way here, and says the number of none. So the thread is the
    lane on which most of the sequence numbers were seen before, by operators which are not
    backward ones; of several the first lane. All arrays have shape ``(n,)``.
    """
    result = np.full(len(lane), NOTHING, dtype=np.int32)
    candidates = np.flatnonzero((forward_thread <= 0) & (sequence >= 0))
    for thread in np.unique(forward_thread[forward_thread > 0]):
        backward = np.flatnonzero(forward_thread == thread)
        found = _lane_of(backward[sequence[backward] >= 0], candidates, sequence, lane, start_ns)
        result[backward] = found
    return result


def _lane_of(
    backward: NDArray[np.intp],
    candidates: NDArray[np.intp],
    sequence: NDArray[np.int64],
    lane: NDArray[np.int32],
    start_ns: NDArray[np.int64],
) -> int:
    if not len(backward) or not len(candidates):
        return NOTHING
    order = backward[np.lexsort((-start_ns[backward], sequence[backward]))]
    asked, first = np.unique(sequence[order], return_index=True)
    last_start_ns = start_ns[order[first]]
    at = np.minimum(np.searchsorted(asked, sequence[candidates]), len(asked) - 1)
    fits = (asked[at] == sequence[candidates]) & (start_ns[candidates] < last_start_ns[at])
    if not fits.any():
        return NOTHING
    return int(np.argmax(np.bincount(lane[candidates[fits]])))
