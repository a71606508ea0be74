"""Replay of a graph: the time of every point with other weights or without some dependencies.

A point comes as late as the latest of the edges into it lets it: its weight, and then the
unexplained time of the point.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from benchorch.trace.arrays import Bools, Int32s, Int64s
from benchorch.trace.critical_path.path import binding_edges, walk_back
from benchorch.trace.dag import Dag

NEVER = 2**62  # ns, 146 years: "no matter how long"; two sums of it still fit 64 bits


def steps(
    dag: Dag,
    weight_ns: Int64s | None = None,
    residual_ns: Int64s | None = None,
    dropped: Bools | None = None,
) -> Int64s:
    """How long after its tail each edge lets its head come, (E,) in ns; ``-NEVER`` of no matter.

    Weights (E,) and residuals (V,), >= 0, replace those observed. `dropped` edges that are all of
    those into a point stay as an order without weight.
    """
    weight = dag.weight_ns if weight_ns is None else weight_ns
    residual = dag.residual_ns if residual_ns is None else residual_ns
    step = weight + residual[dag.head]
    if dropped is None:
        return step
    gone = np.flatnonzero(dropped)
    heads = dag.head[gone]
    into, place, lost = np.unique(heads, return_inverse=True, return_counts=True)
    first, end = (np.searchsorted(dag.head, into, side=side) for side in ("left", "right"))
    step[gone] = np.where((end - first > lost)[place], -NEVER, residual[heads])
    return step


# Most points have one edge in and one out: there time simply adds up. A what-if changes many
# weights but no branch node, so it costs a sum over the edges and a sweep over the chains, about a
# fifth of the points.
@final
@dataclass(frozen=True, kw_only=True)
class Contracted:
    """B branch nodes and the K chains of edges between them, sorted by head as edges are."""

    dag: Dag  # what was contracted
    points: Int64s  # (B,) the points that are branch nodes, from the source to the sink
    tail: Int32s  # and head: (K,) branch nodes by number; ``tail < head``
    head: Int32s
    edges: Int64s  # those of the graph, chain by chain and in order within each
    first: Int64s  # (K,) where in `edges` each chain begins
    last: Int64s  # (K,) the edge of the graph that each chain ends with, ascending

    @cached_property
    def _sweep(self) -> Callable[[Int64s], Int64s]:
        """What every replay has in common."""
        return _sweep(self.tail, self.head, len(self.points))

    def lengths(self, edge_ns: Int64s) -> Int64s:
        """Lengths of chains, (K,) in ns, from the `steps` of all edges."""
        if not len(self.first):
            return np.zeros(0, dtype=np.int64)
        return np.add.reduceat(edge_ns[self.edges], self.first)

    def elapsed(self, length_ns: Int64s, guess_ns: Int64s | None = None) -> Int64s:
        """Time from the source to each branch node, (B,) in ns; a right guess is returned."""
        if guess_ns is not None and len(length_ns):
            reached_ns = guess_ns[self.tail] + length_ns
            begins = np.flatnonzero(np.diff(self.head, prepend=-1))
            held_ns = guess_ns[self.head[begins]]
            if np.array_equal(np.maximum.reduceat(reached_ns, begins), held_ns):
                return guess_ns
        return self._sweep(length_ns)

    def numbers(self, points: Int64s) -> Int64s:
        """The branch nodes at some points that were kept as such."""
        return np.searchsorted(self.points, points)

    def path_edges(self, length_ns: Int64s, elapsed_ns: Int64s, node: int) -> Int64s:
        """The edges of the critical path to a branch node, in order of time."""
        tight = self.last[elapsed_ns[self.tail] + length_ns == elapsed_ns[self.head]]
        holding = np.searchsorted(self.last, binding_edges(self.dag, tight))
        chains = walk_back(self.tail, self.head, holding, len(self.points), node)
        length = np.diff(self.first, append=len(self.edges))[chains]
        begins = self.first[chains] - (np.cumsum(length) - length)
        found: Int64s = self.edges[np.repeat(begins, length) + np.arange(length.sum())]
        return found


# A node with one chain into it comes a sum after the join before it: only joins are swept over.
def _sweep(tail: Int32s, head: Int32s, nodes: int) -> Callable[[Int64s], Int64s]:
    """The function that gives the time of each branch node, (B,) in ns, for the lengths of chains.

    Joins are J maxima of two in order of time; number 0 is time 0.
    """
    chains, inward = np.arange(len(tail)), np.bincount(head, minlength=nodes)
    first = np.cumsum(inward) - inward
    only = np.where(inward == 1, first, len(tail))  # K where there are no chains in, or several
    before = np.arange(nodes)
    before[inward == 1] = tail[first[inward == 1]]
    doubled = []  # in turn, branch nodes and those before them whose sums they add to their own
    while len(node := np.flatnonzero(before[before] != before)):
        doubled.append((node, before[node]))
        before = before[before]
    later = np.flatnonzero((inward[head] > 1) & (chains != first[head]))  # each is one maximum
    number = np.zeros(nodes, dtype=np.int64)
    number[head[later]] = np.arange(1, len(later) + 1)  # of several the last one stays
    join = number[before]  # the last maximum that each branch node depends on
    starts = later - 1 == first[head[later]]
    # Both chains of each maximum, K for the maximum before, which has no length; and the maxima at
    # whose times their sums begin.
    pairs = np.array([np.where(starts, later - 1, len(tail)), later])
    ones = np.where(starts, join[tail[later - 1]], np.arange(len(later))).tolist()
    others = join[tail[later]].tolist()

    def elapsed(length_ns: Int64s) -> Int64s:
        sum_ns = np.append(length_ns, 0)[only]
        for node, earlier in doubled:
            sum_ns[node] += sum_ns[earlier]
        both_ns = np.append(length_ns + sum_ns[tail], 0)[pairs].tolist()
        time_ns = [0]
        push = time_ns.append
        for at, one, there, other in zip(ones, both_ns[0], others, both_ns[1], strict=True):
            early, late = time_ns[at] + one, time_ns[there] + other
            push(late if late > early else early)
        found: Int64s = np.array(time_ns, dtype=np.int64)[join] + sum_ns
        return found

    return elapsed


def contract(dag: Dag, kept: Int64s | Sequence[int] = ()) -> Contracted:
    """The graph with its chains contracted; some points stay branch nodes, whatever they are."""
    inward = np.bincount(dag.head, minlength=dag.points)
    outward = np.bincount(dag.tail, minlength=dag.points)
    inner = (inward == 1) & (outward == 1)
    inner[np.asarray(kept, dtype=np.int64)] = False
    branching = ~inner & (inward + outward > 0)
    branching[[0, -1]] = True
    branching[np.asarray(kept, dtype=np.int64)] = True
    number = np.cumsum(branching) - 1
    begin = _first_edges(dag.tail, dag.head, inner)
    ends = np.flatnonzero(branching[dag.head])
    chain = np.empty(len(dag.tail), dtype=np.int32)
    chain[begin[ends]] = np.arange(len(ends), dtype=np.int32)
    chain = chain[begin]
    order = np.argsort(chain, kind="stable")
    return Contracted(
        dag=dag,
        points=np.flatnonzero(branching),
        tail=number[dag.tail[begin[ends]]].astype(np.int32),
        head=number[dag.head[ends]].astype(np.int32),
        edges=order,
        first=np.flatnonzero(np.diff(chain[order], prepend=-1)),
        last=ends,
    )


def _first_edges(tail: Int32s, head: Int32s, inner: Bools) -> Int32s:
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
