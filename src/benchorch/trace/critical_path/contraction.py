"""What is left of a graph where chains of points that only pass time on are taken together?

Most points have one edge in and one out: between two *junctions* time simply adds up. A what-if
changes many weights but no junction, so it costs a sum over the edges and a sweep over what is
left, about a fifth of the points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy import bool_, int32, int64
from numpy.typing import NDArray

from benchorch.trace.critical_path.batched_replay import BatchedReplay, batched_replay
from benchorch.trace.critical_path.chains import chains_of
from benchorch.trace.critical_path.path import binding_edges, walk_back
from benchorch.trace.critical_path.replay import NEVER, steps
from benchorch.trace.dag import Dag

LEAST_ABREAST = 4_096
"""Junctions below which all of it is fast anyway."""

FEW = 4
"""Replays that are faster one by one."""

CHAINS_AT_ONCE = 4_096
"""Of which lengths are laid out for many replays together."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Contracted:
    """J junctions and the K chains of pieces between them, sorted by head like the graph's edges.

    A piece is an edge of the graph or, of a contraction of a contraction, a chain of the first.

    Attributes:
        dag: what was contracted.
        points: (J,) the points that are junctions; the first is the source, the last the sink.
        tail, head: (K,) junctions by number; ``tail < head``.
        pieces: those that were kept, chain by chain and in order within each.
        first: (K,) where in `pieces` each chain begins.
        last: (K,) the edge of the graph that each chain ends with, ascending.
        known: what was worked out of it already; a changed copy begins anew.
    """

    dag: Dag
    points: NDArray[int64]
    tail: NDArray[int32]
    head: NDArray[int32]
    pieces: NDArray[int64]
    first: NDArray[int64]
    last: NDArray[int64]
    known: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    @property
    def sizes(self) -> NDArray[int64]:
        """How many pieces each chain has, (K,)."""
        return np.diff(self.first, append=len(self.pieces))

    def lengths(self, piece_ns: NDArray[int64]) -> NDArray[int64]:
        """Of chains, (K,) in ns, from those of all pieces there are, kept or not.

        Those of edges are what `steps` says.
        """
        if not len(self.first):
            return np.zeros(0, dtype=np.int64)
        return np.add.reduceat(piece_ns[self.pieces], self.first)

    def observed_lengths(self) -> NDArray[int64]:
        """Of chains of edges, (K,) in ns; not to be written to."""
        if "observed_ns" not in self.known:
            self.known["observed_ns"] = self.lengths(steps(self.dag))
        found: NDArray[int64] = self.known["observed_ns"]
        return found

    def chain_of(self, edges: NDArray[int64]) -> NDArray[int32]:
        """The chain that each of some edges is a piece of, -1 where it is of none."""
        if "chain" not in self.known:
            chain = np.full(self.dag.edges, -1, dtype=np.int32)
            chain[self.pieces] = np.repeat(np.arange(len(self.first), dtype=np.int32), self.sizes)
            self.known["chain"] = chain
        found: NDArray[int32] = self.known["chain"][edges]
        return found

    def shortened(self, edges: NDArray[int64], by_ns: NDArray[int64]) -> NDArray[int64]:
        """The observed lengths of chains with some edges shorter, or longer, (K,) in ns.

        Sums are of doubles, which are exact up to a hundred days.
        """
        observed_ns = self.observed_lengths()
        place = self.chain_of(edges) + 1  # 0: of no chain
        less_ns = np.bincount(place, by_ns, len(observed_ns) + 1)[1:]
        return observed_ns - less_ns.astype(np.int64)

    def elapsed(self, length_ns: NDArray[int64]) -> list[int]:
        """How long after the source each junction comes, (J,) in ns; the last is the makespan."""
        time_ns = [0] * len(self.points)
        chains = (self.tail.tolist(), self.head.tolist(), length_ns.tolist())
        for tail, head, length in zip(*chains, strict=True):
            earliest = time_ns[tail] + length
            if earliest > time_ns[head]:
                time_ns[head] = earliest
        return time_ns

    def makespans_ns(self, length_ns: NDArray[int64]) -> NDArray[int64]:
        """With each row of lengths >= 0, (W, K) in ns, the makespan, (W,), for all rows together.

        Where the graph is no row of narrow segments, a chain is at least looked at only once for
        all of them, for what looking at it twice costs.
        """
        if len(self.points) > LEAST_ABREAST and (plan := self._abreast()):
            return plan.makespans_ns(length_ns)
        if len(length_ns) <= FEW:
            return np.array([self.elapsed(row)[-1] for row in length_ns], dtype=np.int64)
        time_ns = list(np.zeros((len(self.points), len(length_ns)), dtype=np.int64))
        arrived_ns = np.empty(len(length_ns), dtype=np.int64)
        for start in range(0, len(self.tail), CHAINS_AT_ONCE):
            some = slice(start, start + CHAINS_AT_ONCE)
            lengths = np.ascontiguousarray(length_ns[:, some].T)
            chains = zip(self.tail[some].tolist(), self.head[some].tolist(), lengths, strict=True)
            for tail, head, length in chains:
                np.add(time_ns[tail], length, out=arrived_ns)
                np.maximum(time_ns[head], arrived_ns, out=time_ns[head])
        return time_ns[-1].copy()

    def _abreast(self) -> BatchedReplay | None:
        """Its segments, once for each graph, if they can be swept side by side."""
        if "abreast" not in self.known:
            reached = np.bincount(self.head, minlength=len(self.points))[1:].all()
            plan = batched_replay(self.tail, self.head, len(self.points)) if reached else None
            self.known["abreast"] = plan
        found: BatchedReplay | None = self.known["abreast"]
        return found

    def slack(self) -> NDArray[int64]:
        """What each chain of edges has to spare as observed, (K,) in ns, as all of its edges have.

        At least half of `NEVER` where nothing that matters comes after. Worked out once.
        """
        if "slack_ns" not in self.known:
            self.known["slack_ns"] = self._slack()
        found: NDArray[int64] = self.known["slack_ns"]
        return found

    def _slack(self) -> NDArray[int64]:
        length_ns = self.observed_lengths()
        rest_ns = [-NEVER] * len(self.points)
        rest_ns[-1] = 0
        chains = (self.tail, self.head, length_ns)
        for tail, head, length in zip(*(one[::-1].tolist() for one in chains), strict=True):
            longest = rest_ns[head] + length
            if longest > rest_ns[tail]:
                rest_ns[tail] = longest
        elapsed_ns = self.observed_elapsed()
        through_ns = elapsed_ns[self.tail] + length_ns + np.array(rest_ns)[self.head]
        spare_ns: NDArray[int64] = self.dag.makespan_ns - through_ns
        return spare_ns

    def observed_elapsed(self) -> NDArray[int64]:
        """How long after the source each junction came, (J,) in ns."""
        elapsed_ns: NDArray[int64] = self.dag.time_ns[self.points] - self.dag.time_ns[0]
        return elapsed_ns

    def coarser(self, kept: NDArray[bool_]) -> Contracted:
        """Some of its chains, (K,), with what those that follow each other make taken together.

        Those with a slack up to s are enough for replays that make nothing longer and save at
        most s, as in `contract`.
        """
        chains = chains_of(self.tail, self.head, len(self.points), kept)
        return replace(
            self,
            points=self.points[chains.junctions],
            tail=chains.tail,
            head=chains.head,
            pieces=chains.pieces,
            first=chains.first,
            last=self.last[chains.last],
        )

    def makespan_ns(self, step_ns: NDArray[int64]) -> int:
        """Of the graph with these steps: what `replay` would say, for a tenth of the work."""
        return self.elapsed(self.lengths(step_ns))[-1]

    def longest(self, step_ns: NDArray[int64]) -> tuple[int, NDArray[int64]]:
        """The makespan with these steps, and the edges of the critical path, in order of time."""
        length_ns = self.lengths(step_ns)
        elapsed_ns = self.elapsed(length_ns)
        return elapsed_ns[-1], self.pieces_of(self.way(length_ns, elapsed_ns))

    def way(
        self, length_ns: NDArray[int64], elapsed_ns: Sequence[int] | NDArray[int64]
    ) -> NDArray[int64]:
        """The chains of the critical path, from what `lengths` and `elapsed` say."""
        at_ns = np.asarray(elapsed_ns, dtype=np.int64)
        tight = self.last[at_ns[self.tail] + length_ns == at_ns[self.head]]
        holding = np.searchsorted(self.last, binding_edges(self.dag, tight))
        return walk_back(self.tail, self.head, holding, len(self.points))

    def pieces_of(self, chains: NDArray[int64]) -> NDArray[int64]:
        """The pieces of some chains, one after another."""
        length = self.sizes[chains]
        begins = self.first[chains] - (np.cumsum(length) - length)
        places = np.repeat(begins, length) + np.arange(length.sum())
        found: NDArray[int64] = self.pieces[places]
        return found


def whole(dag: Dag) -> Contracted:
    """All of a graph with its chains taken together, once for each graph."""
    if "contracted" not in dag.known:
        dag.known["contracted"] = contract(dag)
    found: Contracted = dag.known["contracted"]
    return found


def contract(dag: Dag, kept: NDArray[bool_] | None = None) -> Contracted:
    """The graph with its chains taken together.

    Args:
        dag: of E edges.
        kept: (E,) the edges that matter, all by default. With those of a slack up to s, every
            replay that makes nothing longer stays exact as long as it saves at most s: what is
            left out lies on no way that is longer than the makespan less s.
    """
    chains = chains_of(dag.tail, dag.head, dag.points, kept)
    return Contracted(
        dag=dag,
        points=chains.junctions,
        tail=chains.tail,
        head=chains.head,
        pieces=chains.pieces,
        first=chains.first,
        last=chains.last,
    )
