"""Which event is inside which, of events in the order of their lanes?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from benchorch.trace.dag import NOBODY

if TYPE_CHECKING:
    from numpy import int32, int64
    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """How h events lie inside each other.

    Attributes:
        parent: (h,) the event around each, or NOBODY.
        depth: (h,) how many are around it.
        after: (h,) the next event that is not inside it, h for none.
        end_ns: (h,) ends, cut where a child outlives its parent.
        clipped: how many were cut.
    """

    parent: NDArray[int64]
    depth: NDArray[int64]
    after: NDArray[int64]
    end_ns: NDArray[int64]
    clipped: int


def nested(lane: NDArray[int32], start_ns: NDArray[int64], end_ns: NDArray[int64]) -> Nested:
    """The nesting of events that come by lane, start and depth; O(h log h), no loop over events.

    An event that starts where another ends comes after it. A child that outlives its parent is
    cut, which can bring to light that others outlive it: that repeats until nothing is cut.
    """
    import numpy as np

    clipped = np.zeros(len(lane), dtype=np.bool_)
    while True:
        after = _after(lane, start_ns, end_ns)
        index = np.arange(len(lane), dtype=np.int64)
        depth = index - np.cumsum(np.bincount(after, minlength=len(lane) + 1))[: len(lane)]
        parent = _parents(depth)
        latest = np.where(parent != NOBODY, end_ns[parent], end_ns) if len(lane) else end_ns
        longer = end_ns > latest
        if not longer.any():
            return Nested(
                parent=parent,
                depth=depth,
                after=after,
                end_ns=end_ns,
                clipped=int(clipped.sum()),
            )
        clipped |= longer
        end_ns = np.where(longer, latest, end_ns)


def _after(
    lane: NDArray[int32], start_ns: NDArray[int64], end_ns: NDArray[int64]
) -> NDArray[int64]:
    """For each event the first one of its lane from its end on, itself excepted."""
    import numpy as np

    if not len(lane):
        return np.zeros(0, dtype=np.int64)
    first_ns = start_ns.min()
    span_ns = int(end_ns.max() - first_ns) + 1
    rank = np.cumsum(np.diff(lane, prepend=lane[0]) != 0)
    begins = rank * span_ns + (start_ns - first_ns)
    after: NDArray[int64] = np.searchsorted(begins, rank * span_ns + (end_ns - first_ns))
    np.maximum(after, np.arange(1, len(lane) + 1), out=after)
    return after


def _parents(depth: NDArray[int64]) -> NDArray[int64]:
    """For each event the last one before it that is one less deep."""
    import numpy as np

    index = np.arange(len(depth), dtype=np.int64)
    order = np.argsort(depth.astype(np.uint16), kind="stable")
    key = depth * (len(depth) + 1) + index
    before = np.searchsorted(key[order], key - (len(depth) + 1)) - 1
    return np.where(depth > 0, order[before], NOBODY)
