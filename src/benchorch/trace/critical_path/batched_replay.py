"""How long do many replays of a long, narrow graph take? Its segments are swept side by side.

A graph of few threads and streams has places that few chains cross. Between two of them the time
of every junction follows from that of the few junctions that are *open*: come before, and still
have a chain to what comes after. So each segment is swept once from each junction that is open
where it begins, all segments abreast, and what they say is put together from the first to the
last. That is a thousand steps over long vectors instead of a million over single numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy import int32, int64
from numpy.typing import NDArray

from benchorch.trace.critical_path.replay import NEVER

SEGMENT = 512
"""Junctions of one."""

MOST_OPEN = 6
"""Open junctions with which it is still worth it: so many times the work is done."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchedReplay:
    """B segments of up to C chains; a place is that of a junction, or open one, in its segment.

    Junctions take turns at the places: one is free again when its junction's last chain has been
    looked at. So the table is small, however long the graph, and stays in the processor's cache.

    Attributes:
        open_most: how many junctions are open where a segment begins, at most: O.
        places: P of each segment; the first O are those of the open ones, the last is nobody's.
        tail, head: (C, B) places of each chain, as rows of a table of P times B.
        before: (C, B) the head's place if another chain led there before, else nobody's.
        chain: (C, B) its number; K where a segment has no more chains.
        handed_on: (B, O) places of what is open where each ends; in the last it is the sink.
        opened: (B,) how many are open where each begins.
    """

    open_most: int
    places: int
    tail: NDArray[int64]
    head: NDArray[int64]
    before: NDArray[int64]
    chain: NDArray[int64]
    handed_on: NDArray[int64]
    opened: NDArray[int64]

    def makespans_ns(self, length_ns: NDArray[int64]) -> NDArray[int64]:
        """With each row of lengths >= 0, (W, K) in ns, the makespan, (W,)."""
        scenarios, segments = len(length_ns), len(self.opened)
        lengths = np.zeros((length_ns.shape[1] + 1, 1, scenarios), dtype=np.int64)
        lengths[:-1, 0] = length_ns.T
        shape = (self.places, segments, self.open_most, scenarios)
        times_ns = np.full(shape, -NEVER, dtype=np.int64)
        for slot in range(self.open_most):
            times_ns[slot, self.opened > slot, slot] = 0
        flat_ns = times_ns.reshape(-1, self.open_most, scenarios)
        arrived_ns, earlier_ns = np.empty((2, *shape[1:]), dtype=np.int64)
        length = np.empty((segments, 1, scenarios), dtype=np.int64)
        columns = (self.tail, self.head, self.before, self.chain)
        for tail, head, before, chain in zip(*columns, strict=True):
            # Into what is there already, and "clip" for numpy would go by way of a copy else.
            flat_ns.take(tail, axis=0, out=arrived_ns, mode="clip")
            arrived_ns += lengths.take(chain, axis=0, out=length, mode="clip")
            flat_ns.take(before, axis=0, out=earlier_ns, mode="clip")
            flat_ns[head] = np.maximum(arrived_ns, earlier_ns, out=arrived_ns)
        return self._joined(flat_ns)

    def _joined(self, flat_ns: NDArray[int64]) -> NDArray[int64]:
        """From the source, which alone is open at first, through all segments to the sink."""
        open_ns = np.full(flat_ns.shape[1:], -NEVER, dtype=np.int64)
        open_ns[0] = 0
        for handed_on in self.handed_on:
            open_ns = np.maximum((flat_ns[handed_on] + open_ns).max(axis=1), -NEVER)
        sink_ns: NDArray[int64] = open_ns[0]
        return sink_ns


def batched_replay(
    tail: NDArray[int32], head: NDArray[int32], junctions: int, segment: int = SEGMENT
) -> BatchedReplay | None:
    """K chains between junctions, sorted by head, as segments; None where too much is open.

    Every junction but the first is taken to have a chain into it.
    """
    last = np.zeros(junctions, dtype=np.int64)
    np.maximum.at(last, tail, head)
    starts = _starts(last, segment)
    fronts = _fronts(starts, last)
    open_most = max(len(front) for front in fronts)
    if not 0 < open_most <= MOST_OPEN:
        return None
    turns = _turns(starts, last)
    places = open_most + turns + 1
    within = np.searchsorted(starts, head, side="right") - 1
    first = np.searchsorted(head, starts)
    counts = np.diff(first, append=len(head))
    rank = np.arange(len(head)) - first[within]
    nobody = (places - 1) * len(starts) + np.arange(len(starts))
    tails, heads, before = (np.tile(nobody, (int(counts.max()), 1)) for _ in range(3))
    chain = np.full_like(tails, len(head))
    table = _Table(starts=starts, fronts=fronts, open_most=open_most, turns=turns)
    tails[rank, within] = table.rows(tail, within)
    heads[rank, within] = head_rows = table.rows(head, within)
    again = np.flatnonzero(np.diff(head) == 0) + 1
    before[rank[again], within[again]] = head_rows[again]
    chain[rank, within] = np.arange(len(head))
    handed_on = np.tile(nobody[:, None], (1, open_most))
    after = [*fronts[1:], np.array([junctions - 1])]
    begun = np.repeat(np.arange(len(starts)), [len(front) for front in after])
    slot = np.concatenate([np.arange(len(front)) for front in after])
    handed_on[begun, slot] = table.rows(np.concatenate(after), begun)
    return BatchedReplay(
        open_most=open_most,
        places=places,
        tail=tails,
        head=heads,
        before=before,
        chain=chain,
        handed_on=handed_on,
        opened=np.array([len(front) for front in fronts]),
    )


def _starts(last: NDArray[int64], segment: int) -> NDArray[int64]:
    """Where segments begin: about equally far from each other, where little is open.

    The first begins after the source, which is open there; so every chain ends in a segment.
    """
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
    fronts: list[NDArray[int64]] = []
    before, begin = np.zeros(0, dtype=np.int64), 0
    for start in starts.tolist():
        seen = np.append(before, np.arange(begin, start))
        before, begin = seen[last[seen] >= start], start
        fronts.append(before)
    return fronts


def _turns(starts: NDArray[int64], last: NDArray[int64]) -> int:
    """How many places are enough for the junctions of any segment to take turns at.

    A junction has to be known up to the one that its last chain leads to or, if that is in a later
    segment, up to its segment's end.
    """
    junctions = len(last)
    own = np.arange(int(starts[0]), junctions)
    within = np.searchsorted(starts, own, side="right")
    until = np.minimum(last[own], np.append(starts, junctions)[within])
    until[-1] = junctions  # the sink is what all of it is about
    return int((until - own).max(initial=0)) + 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Where a segment keeps the time of a junction: `fronts` are the open ones of each."""

    starts: NDArray[int64]
    fronts: list[NDArray[int64]]
    open_most: int
    turns: int

    def rows(
        self, junction: NDArray[int64] | NDArray[int32], within: NDArray[int64]
    ) -> NDArray[int64]:
        """The row of each junction as its segment sees it: one of its own, or one that is open."""
        begin = self.starts[within]
        place = self.open_most + (junction - begin) % self.turns
        earlier = np.flatnonzero(junction < begin)
        size = int(self.starts[-1]) + 1
        open_ = np.concatenate([number * size + front for number, front in enumerate(self.fronts)])
        begins = np.cumsum([0, *(len(front) for front in self.fronts[:-1])])
        found = np.searchsorted(open_, within[earlier] * size + junction[earlier])
        place[earlier] = found - begins[within[earlier]]
        rows: NDArray[int64] = place * len(self.starts) + within
        return rows
