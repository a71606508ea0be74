"""Chain contraction: the graph of branch nodes, with the edges between two of them as one chain.

Most points have one edge in and one out: there time simply adds up. A what-if changes many weights
but no branch node, so it costs a sum over the edges and a sweep over the chains, about a fifth of
the points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.critical_path.path import binding_edges, walk_back
from benchorch.trace.critical_path.replay import NEVER, steps
from benchorch.trace.dag import Dag
from benchorch.trace.memo import once

FEW = 4
"""Replays that are faster one by one."""

CHAINS_AT_ONCE = 4_096
"""Chains whose lengths are laid out for many replays together."""


@final
@dataclass(frozen=True, kw_only=True)
class Contracted:
    """B branch nodes and the K chains of edges between them, sorted by head like the graph's edges.

    An edge is one of the graph or, in a contraction of a contraction, a chain of the first.

    Attributes:
        dag: what was contracted.
        points: (B,) the points that are branch nodes, from the source to the sink.
        tail, head: (K,) branch nodes by number; ``tail < head``.
        edges: those that were kept, chain by chain and in order within each.
        first: (K,) where in `edges` each chain begins.
        last: (K,) the edge of the graph that each chain ends with, ascending.
    """

    dag: Dag
    points: NDArray[np.int64]
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    edges: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of edges in each chain, (K,)."""
        return np.diff(self.first, append=len(self.edges))

    @cached_property
    def observed_lengths(self) -> NDArray[np.int64]:
        """Lengths of chains of edges, (K,) in ns; not to be written to."""
        return self.lengths(steps(self.dag))

    @cached_property
    def observed_elapsed(self) -> NDArray[np.int64]:
        """Time from the source to each branch node, (B,) in ns."""
        elapsed_ns: NDArray[np.int64] = self.dag.time_ns[self.points] - self.dag.time_ns[0]
        return elapsed_ns

    @cached_property
    def chain_of(self) -> NDArray[np.int32]:
        """The chain of each edge of the graph, (E,); -1 for none."""
        chain = np.full(self.dag.edges, -1, dtype=np.int32)
        chain[self.edges] = np.repeat(np.arange(len(self.first), dtype=np.int32), self.sizes)
        return chain

    @cached_property
    def slack(self) -> NDArray[np.int64]:
        """Observed slack of each chain of edges, (K,) in ns, which is that of all of its edges.

        At least half of `NEVER` where nothing that matters comes after.
        """
        rest_ns = [-NEVER] * len(self.points)
        rest_ns[-1] = 0
        chains = (self.tail, self.head, self.observed_lengths)
        for tail, head, length in zip(*(one[::-1].tolist() for one in chains), strict=True):
            longest = rest_ns[head] + length
            if longest > rest_ns[tail]:
                rest_ns[tail] = longest
        before_ns = self.observed_elapsed[self.tail]
        through_ns = before_ns + self.observed_lengths + np.array(rest_ns)[self.head]
        spare_ns: NDArray[np.int64] = self.dag.makespan_ns - through_ns
        return spare_ns

    @cached_property
    def _ends(self) -> tuple[list[int], list[int]]:
        """`tail` and `head` as numbers of Python, over which every replay walks."""
        return self.tail.tolist(), self.head.tolist()

    def lengths(self, edge_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Lengths of chains, (K,) in ns, from those of all edges there are, kept or not.

        Lengths of the graph's edges are its `steps`.
        """
        if not len(self.first):
            return np.zeros(0, dtype=np.int64)
        return np.add.reduceat(edge_ns[self.edges], self.first)

    def shortened(self, edges: NDArray[np.int64], by_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The observed lengths of chains with some edges shorter, or longer, (K,) in ns.

        Sums are of doubles, which are exact up to a hundred days.
        """
        place = self.chain_of[edges] + 1  # 0: of no chain
        less_ns = np.bincount(place, by_ns, len(self.first) + 1)[1:]
        return self.observed_lengths - less_ns.astype(np.int64)

    def elapsed(self, length_ns: NDArray[np.int64]) -> list[int]:
        """Time from the source to each branch node, (B,) in ns; the last is the makespan."""
        time_ns = [0] * len(self.points)
        for tail, head, length in zip(*self._ends, length_ns.tolist(), strict=True):
            earliest = time_ns[tail] + length
            if earliest > time_ns[head]:
                time_ns[head] = earliest
        return time_ns

    def makespans_ns(self, length_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The makespan with each row of lengths >= 0; (W, K) in ns gives (W,).

        Many rows visit each chain once for all of them, for what visiting it twice costs.
        """
        if len(length_ns) <= FEW:
            return np.array([self.elapsed(row)[-1] for row in length_ns], dtype=np.int64)
        time_ns = list(np.zeros((len(self.points), len(length_ns)), dtype=np.int64))
        arrived_ns = np.empty(len(length_ns), dtype=np.int64)
        for start in range(0, len(self.tail), CHAINS_AT_ONCE):
            some = slice(start, start + CHAINS_AT_ONCE)
            lengths = np.ascontiguousarray(length_ns[:, some].T)
            chains = zip(*(ends[some] for ends in self._ends), lengths, strict=True)
            for tail, head, length in chains:
                np.add(time_ns[tail], length, out=arrived_ns)
                np.maximum(time_ns[head], arrived_ns, out=time_ns[head])
        return time_ns[-1].copy()

    def coarser(self, kept: NDArray[np.bool_]) -> Contracted:
        """Some of its chains, (K,), with those that follow each other as one.

        Those with a slack up to s are enough for replays that make nothing longer and save at
        most s, as in `contract`.
        """
        small = _contracted(self.dag, self.tail, self.head, len(self.points), kept)
        return replace(small, points=self.points[small.points], last=self.last[small.last])

    def makespan_ns(self, step_ns: NDArray[np.int64]) -> int:
        """The makespan of the graph with these steps, as `replay` gives it."""
        return self.elapsed(self.lengths(step_ns))[-1]

    def longest(self, step_ns: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
        """The makespan with these steps, and the edges of the critical path, in order of time."""
        length_ns = self.lengths(step_ns)
        elapsed_ns = self.elapsed(length_ns)
        return elapsed_ns[-1], self.edges_of(self.critical_chains(length_ns, elapsed_ns))

    def critical_chains(
        self, length_ns: NDArray[np.int64], elapsed_ns: Sequence[int] | NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The chains of the critical path, from the results of `lengths` and `elapsed`."""
        at_ns = np.asarray(elapsed_ns, dtype=np.int64)
        tight = self.last[at_ns[self.tail] + length_ns == at_ns[self.head]]
        holding = np.searchsorted(self.last, binding_edges(self.dag, tight))
        return walk_back(self.tail, self.head, holding, len(self.points))

    def edges_of(self, chains: NDArray[np.int64]) -> NDArray[np.int64]:
        """The edges of some chains, one after another."""
        length = self.sizes[chains]
        begins = self.first[chains] - (np.cumsum(length) - length)
        found: NDArray[np.int64] = self.edges[np.repeat(begins, length) + np.arange(length.sum())]
        return found


def contract(dag: Dag, kept: NDArray[np.bool_] | None = None) -> Contracted:
    """The graph with its chains contracted.

    Args:
        dag: of E edges.
        kept: (E,) the edges that matter, all by default. With those of a slack up to s, every
            replay that makes nothing longer stays exact as long as it saves at most s: what is
            left out lies on no way that is longer than the makespan less s.
    """
    return _contracted(dag, dag.tail, dag.head, dag.points, kept)


@once
def whole(dag: Dag) -> Contracted:
    """All of a graph with its chains contracted, once for each graph."""
    return contract(dag)


@once
def explained(dag: Dag) -> Dag:
    """The graph with the times of a replay without unexplained time, once for each graph."""
    graph = whole(dag)
    length_ns = graph.lengths(dag.weight_ns)
    node_ns = dag.time_ns[0] + np.array(graph.elapsed(length_ns), dtype=np.int64)
    passed_ns = np.cumsum(dag.weight_ns[graph.edges])
    begun_ns = node_ns[graph.tail] - (np.cumsum(length_ns) - length_ns)
    time_ns = np.full(dag.points, dag.time_ns[0])
    time_ns[dag.head[graph.edges]] = passed_ns + np.repeat(begun_ns, graph.sizes)
    time_ns[graph.points] = node_ns
    none_ns = np.broadcast_to(np.int64(0), dag.points)
    return replace(dag, time_ns=time_ns, residual_ns=none_ns)


def _contracted(
    dag: Dag,
    tail: NDArray[np.int32],
    head: NDArray[np.int32],
    points: int,
    kept: NDArray[np.bool_] | None,
) -> Contracted:
    """Some of the edges, or chains, of a graph with so many points, with chains contracted."""
    kept_edges = None if kept is None else np.flatnonzero(kept)
    if kept_edges is not None:
        tail, head = tail[kept_edges], head[kept_edges]
    inward = np.bincount(head, minlength=points)
    outward = np.bincount(tail, minlength=points)
    inner = (inward == 1) & (outward == 1)
    branching = ~inner & (inward + outward > 0)
    branching[[0, -1]] = True
    number = np.cumsum(branching) - 1
    begin = _first_edges(tail, head, inner)
    ends = np.flatnonzero(branching[head])
    chain = np.empty(len(tail), dtype=np.int32)
    chain[begin[ends]] = np.arange(len(ends), dtype=np.int32)
    chain = chain[begin]
    order = np.argsort(chain, kind="stable")
    return Contracted(
        dag=dag,
        points=np.flatnonzero(branching),
        tail=number[tail[begin[ends]]].astype(np.int32),
        head=number[head[ends]].astype(np.int32),
        edges=order if kept_edges is None else kept_edges[order],
        first=np.flatnonzero(np.diff(chain[order], prepend=-1)),
        last=ends if kept_edges is None else kept_edges[ends],
    )


def _first_edges(
    tail: NDArray[np.int32], head: NDArray[np.int32], inner: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """The first edge of each edge's chain, (E,), by pointer doubling."""
    own = np.arange(len(tail), dtype=np.int32)
    into = np.zeros(len(inner), dtype=np.int32)
    into[head] = own
    first = np.where(inner[tail], into[tail], own)
    while True:
        earlier = first[first]
        if np.array_equal(earlier, first):
            return first
        first = earlier
