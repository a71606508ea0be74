"""How long do many replays of a long, narrow graph take? Its segments are swept side by side.

A graph of few threads and streams has places that few chains cross. Between two of them the time
of every junction follows from that of the few junctions that are *open*: come before, and still
have a chain to what comes after. So each segment is swept once from each junction that is open
where it begins, all segments abreast, and what they say is put together from the first to the
last. That is a thousand steps over long vectors instead of a million over single numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from benchorch.trace.replay import NEVER

if TYPE_CHECKING:
    from numpy import int32, int64
    from numpy.typing import NDArray

SEGMENT = 512
"""Junctions of one."""

MOST_OPEN = 6
"""Open junctions with which it is still worth it: so many times the work is done."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Abreast:
    """B segments of up to C chains; a place is that of a junction, or open one, in its segment.

    Attributes:
        open_most: how many junctions are open where a segment begins, at most: O.
        places: P of each segment; the first O are those of the open ones, the last is nobody's.
        tail, head: (C, B) places of each chain, as rows of a table of P times B.
        chain: (C, B) its number; K where a segment has no more chains.
        handed_on: (B, O) places of what is open where each ends; in the last it is the sink.
        opened: (B,) how many are open where each begins.
    """

    open_most: int
    places: int
    tail: NDArray[int64]
    head: NDArray[int64]
    chain: NDArray[int64]
    handed_on: NDArray[int64]
    opened: NDArray[int64]

    def makespans_ns(self, length_ns: NDArray[int64]) -> NDArray[int64]:
        """With each row of lengths >= 0, (W, K) in ns, the makespan, (W,)."""
        import numpy as np

        scenarios, segments = len(length_ns), len(self.opened)
        lengths = np.zeros((length_ns.shape[1] + 1, 1, scenarios), dtype=np.int64)
        lengths[:-1, 0] = length_ns.T
        shape = (self.places, segments, self.open_most, scenarios)
        times_ns = np.full(shape, -NEVER, dtype=np.int64)
        for slot in range(self.open_most):
            times_ns[slot, self.opened > slot, slot] = 0
        flat_ns = times_ns.reshape(-1, self.open_most, scenarios)
        for tail, head, chain in zip(self.tail, self.head, self.chain, strict=True):
            arrived_ns = flat_ns[tail]
            arrived_ns += lengths[chain]
            flat_ns[head] = np.maximum(arrived_ns, flat_ns[head])
        return self._joined(flat_ns)

    def _joined(self, flat_ns: NDArray[int64]) -> NDArray[int64]:
        """From the source, which alone is open at first, through all segments to the sink."""
        import numpy as np

        open_ns = np.full(flat_ns.shape[1:], -NEVER, dtype=np.int64)
        open_ns[0] = 0
        for handed_on in self.handed_on:
            open_ns = np.maximum((flat_ns[handed_on] + open_ns).max(axis=1), -NEVER)
        sink_ns: NDArray[int64] = open_ns[0]
        return sink_ns


def abreast(
    tail: NDArray[int32], head: NDArray[int32], junctions: int, segment: int = SEGMENT
) -> Abreast | None:
    """K chains between junctions, sorted by head, as segments; None where too much is open.

    Every junction but the first is taken to have a chain into it.
    """
    import numpy as np

    last = np.zeros(junctions, dtype=np.int64)
    np.maximum.at(last, tail, head)
    starts = _starts(last, segment)
    fronts = _fronts(starts, last)
    open_most = max(len(front) for front in fronts)
    if not 0 < open_most <= MOST_OPEN:
        return None
    sizes = np.diff(starts, append=junctions)
    places = open_most + int(sizes.max()) + 1
    within = np.searchsorted(starts, head, side="right") - 1
    first = np.searchsorted(head, starts)
    counts = np.diff(first, append=len(head))
    rank = np.arange(len(head)) - first[within]
    nobody = (places - 1) * len(starts) + np.arange(len(starts))
    tails, heads = (np.tile(nobody, (int(counts.max()), 1)) for _ in range(2))
    chain = np.full_like(tails, len(head))
    tails[rank, within] = _rows(tail, within, starts, fronts, open_most)
    heads[rank, within] = _rows(head, within, starts, fronts, open_most)
    chain[rank, within] = np.arange(len(head))
    handed_on = np.tile(nobody[:, None], (1, open_most))
    after = [*fronts[1:], np.array([junctions - 1])]
    begun = np.repeat(np.arange(len(starts)), [len(front) for front in after])
    slot = np.concatenate([np.arange(len(front)) for front in after])
    handed_on[begun, slot] = _rows(np.concatenate(after), begun, starts, fronts, open_most)
    return Abreast(
        open_most=open_most,
        places=places,
        tail=tails,
        head=heads,
        chain=chain,
        handed_on=handed_on,
        opened=np.array([len(front) for front in fronts]),
    )


def _starts(last: NDArray[int64], segment: int) -> NDArray[int64]:
    """Where segments begin: about equally far from each other, where little is open.

    The first begins after the source, which is open there; so every chain ends in a segment.
    """
    import numpy as np

    junctions = len(last)
    begun = np.arange(junctions)[last > 0]
    change = np.bincount(begun + 1, minlength=junctions + 2)
    change -= np.bincount(last[begun] + 1, minlength=junctions + 2)
    opened = np.cumsum(change)
    starts = [min(1, junctions - 1)]
    for middle in range(starts[0] + segment, junctions - segment // 2, segment):
        near = slice(max(middle - segment // 4, starts[-1] + 1), middle + segment // 4 + 1)
        starts.append(near.start + int(np.argmin(opened[near])))
    return np.array(starts, dtype=np.int64)


def _fronts(starts: NDArray[int64], last: NDArray[int64]) -> list[NDArray[int64]]:
    """The junctions that are open where each segment begins, in order."""
    import numpy as np

    fronts: list[NDArray[int64]] = []
    before, begin = np.zeros(0, dtype=np.int64), 0
    for start in starts.tolist():
        seen = np.append(before, np.arange(begin, start))
        before, begin = seen[last[seen] >= start], start
        fronts.append(before)
    return fronts


def _rows(
    junction: NDArray[int64] | NDArray[int32],
    within: NDArray[int64],
    starts: NDArray[int64],
    fronts: list[NDArray[int64]],
    open_most: int,
) -> NDArray[int64]:
    """The row of each junction as its segment sees it: one of its own, or one that is open."""
    import numpy as np

    place = open_most + junction - starts[within]
    earlier = np.flatnonzero(junction < starts[within])
    size = int(starts[-1]) + 1
    open_ = np.concatenate([number * size + front for number, front in enumerate(fronts)])
    begins = np.cumsum([0, *(len(front) for front in fronts[:-1])])
    found = np.searchsorted(open_, within[earlier] * size + junction[earlier])
    place[earlier] = found - begins[within[earlier]]
    rows: NDArray[int64] = place * len(starts) + within
    return rows
