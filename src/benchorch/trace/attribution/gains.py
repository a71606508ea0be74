"""Exact gain of the makespan if some events took less time, by replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.critical_path.contraction import Contracted, whole
from benchorch.trace.critical_path.replay import NEVER, steps
from benchorch.trace.dag import Dag
from benchorch.trace.memo import once

LEVELS = 2
"""By how much a graph for small savings reaches less far than the next larger one."""

CHAINS_AT_ONCE = 2**22
"""Of all replays of one graph together, which bounds their memory."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Shorter edges: their numbers, each once, and the nanoseconds cut from each."""

    edges: NDArray[np.int64]
    ns: NDArray[np.int64]

    @staticmethod
    def of(cut_ns: NDArray[np.int64]) -> Cut:
        """From a column for all edges, (E,)."""
        edges = np.flatnonzero(cut_ns)
        return Cut(edges=edges, ns=cut_ns[edges])

    @property
    def half(self) -> Cut:
        """Half of it, rounded down."""
        return Cut(edges=self.edges, ns=self.ns // 2)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """Counterfactuals on one graph.

    Where all that is saved on the path fits into what every other way has to spare, the path
    stays the longest way and the answer is that sum: no replay is needed. So a trace of one
    thread needs none at all.

    Attributes:
        dag: the graph.
        is_on_path: (E,) the edges on its critical path.
        spare_ns: the least slack of all edges beside the path.
    """

    dag: Dag
    is_on_path: NDArray[np.bool_]
    spare_ns: int
    _contracted: dict[int, Contracted] = field(default_factory=dict)

    def saved_ns(self, cut_ns: NDArray[np.int64]) -> int:
        """The makespan less that with each edge's weight shortened; `cut_ns` is (E,), >= 0."""
        return self.saved_each([Cut.of(cut_ns)])[0]

    def saved_each(self, cuts: Sequence[Cut]) -> list[int]:
        """The same of several, which cost far less together than one after another."""
        saved_ns = [self.on_path_ns(cut) for cut in cuts]
        asked: dict[int, list[int]] = {}
        for number, on_path in enumerate(saved_ns):
            if on_path > self.spare_ns:
                asked.setdefault(self._level_ns(on_path), []).append(number)
        for level_ns, numbers in asked.items():
            graph = self.contracted(level_ns)
            at_once = 1 + CHAINS_AT_ONCE // (1 + len(graph.first))
            for start in range(0, len(numbers), at_once):
                some = numbers[start : start + at_once]
                rest_ns = _makespans_ns(graph, [cuts[number] for number in some])
                for number, left in zip(some, rest_ns, strict=True):
                    saved_ns[number] = self.dag.makespan_ns - left
        return saved_ns

    def on_path_ns(self, cut: Cut) -> int:
        """What is cut from the critical path."""
        return int(cut.ns[self.is_on_path[cut.edges]].sum())

    def contracted(self, saved_ns: int) -> Contracted:
        """Chains of chains whose replays are exact as long as they save at most so much.

        Ways with more to spare than that can never become the longest. So a small saving is
        asked of the few edges near the path: of those with up to half of the makespan to spare, a
        quarter, and so on.
        """
        level_ns = self._level_ns(saved_ns)
        if level_ns not in self._contracted:
            every = whole(self.dag)
            near = every.slack <= level_ns
            known = (one for one in self._contracted.values() if len(one.edges) == near.sum())
            self._contracted[level_ns] = next(known, None) or every.coarser(near)
        return self._contracted[level_ns]

    def _level_ns(self, saved_ns: int) -> int:
        level_ns = self.dag.makespan_ns
        while level_ns // LEVELS > saved_ns:
            level_ns //= LEVELS
        return level_ns

    def saved_by_not_waiting(self, dropped: NDArray[np.bool_]) -> int:
        """The makespan less that of a replay without the dropped dependencies, (E,).

        Work that no thread waits for any more has to be finished all the same: the replay ends
        with the last point, not with the sink.
        """
        if not dropped.any():
            return 0
        every = whole(self.dag)
        length_ns = every.lengths(steps(self.dag, dropped=dropped))
        elapsed_ns = np.array(every.elapsed(length_ns))
        cut_off = length_ns < 0  # what a chain does before the end that nobody waits for
        ends_ns = elapsed_ns[every.tail[cut_off]] + (length_ns[cut_off] + NEVER)
        return self.dag.makespan_ns - max(int(elapsed_ns.max()), int(ends_ns.max(initial=0)))


def _makespans_ns(graph: Contracted, cuts: Sequence[Cut]) -> list[int]:
    """Makespan with each cut."""
    length_ns = np.empty((len(cuts), len(graph.first)), dtype=np.int64)
    for row, cut in zip(length_ns, cuts, strict=True):
        row[:] = graph.lengths(whole(graph.dag).shortened(cut.edges, cut.ns))
    found: list[int] = graph.makespans_ns(length_ns).tolist()
    return found


@once
def gains(dag: Dag) -> Gains:
    """Counterfactuals on a graph, once for each graph."""
    # Not those of the path's stretches: edges of no length have none, but belong to it too.
    every = whole(dag)
    along = every.critical_chains(every.observed_lengths, every.observed_elapsed)
    is_on_path = np.zeros(dag.edges, dtype=np.bool_)
    is_on_path[every.edges_of(along)] = True
    spare_ns = every.slack[~is_on_path[every.last]]
    least_ns = int(spare_ns.min()) if len(spare_ns) else dag.makespan_ns
    return Gains(dag=dag, is_on_path=is_on_path, spare_ns=least_ns)


def part_of(weight_ns: NDArray[np.int64], share: NDArray[np.float64] | float) -> NDArray[np.int64]:
    """A share of each weight, rounded down: (E,) in ns, never more than the weight."""
    part: NDArray[np.int64] = np.floor(weight_ns * share).astype(np.int64)
    return part
