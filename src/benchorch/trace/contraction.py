"""What is left of a graph where chains of points that only pass time on are taken together?

Most points have one edge in and one out: between two *junctions* time simply adds up. A what-if
changes many weights but no junction, so it costs a sum over the edges and a sweep over what is
left, about a fifth of the points.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

from benchorch.trace.abreast import Abreast, abreast
from benchorch.trace.path import binding_edges, walk_back
from benchorch.trace.replay import NEVER, steps

if TYPE_CHECKING:
    from numpy import bool_, int32, int64
    from numpy.typing import NDArray

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
    """J junctions and the K chains of edges between them, sorted by head like the graph's edges.

    Attributes:
        dag: what was contracted.
        points: (J,) the points that are junctions; the first is the source, the last the sink.
        tail, head: (K,) junctions by number; ``tail < head``.
        edges: the edges that were kept, chain by chain and in order within each.
        first: (K,) where in `edges` each chain begins.
        known: what was worked out of it already; a changed copy begins anew.
    """

    dag: Dag
    points: NDArray[int64]
    tail: NDArray[int32]
    head: NDArray[int32]
    edges: NDArray[int64]
    first: NDArray[int64]
    known: dict[str, Abreast | None] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    @property
    def last(self) -> NDArray[int64]:
        """The edge that each chain ends with, (K,)."""
        import numpy as np

        ended: NDArray[int64] = self.edges[self.first - 1]  # before each begins: the one before
        return np.roll(ended, -1)

    @property
    def sizes(self) -> NDArray[int64]:
        """How many edges each chain has, (K,)."""
        import numpy as np

        return np.diff(self.first, append=len(self.edges))

    def lengths(self, step_ns: NDArray[int64]) -> NDArray[int64]:
        """Of chains, (K,) in ns, from what `steps` says of the graph's edges."""
        import numpy as np

        if not len(self.first):
            return np.zeros(0, dtype=np.int64)
        return np.add.reduceat(step_ns[self.edges], self.first)

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
        import numpy as np

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

    def _abreast(self) -> Abreast | None:
        """Its segments, once for each graph, if they can be swept side by side."""
        import numpy as np

        if "abreast" not in self.known:
            reached = np.bincount(self.head, minlength=len(self.points))[1:].all()
            plan = abreast(self.tail, self.head, len(self.points)) if reached else None
            self.known["abreast"] = plan
        return self.known["abreast"]

    def slack(self) -> NDArray[int64]:
        """What each chain has to spare as observed, (K,) in ns, as all of its edges have.

        At least half of `NEVER` where nothing that matters comes after.
        """
        import numpy as np

        length_ns = self.lengths(steps(self.dag))
        rest_ns = [-NEVER] * len(self.points)
        rest_ns[-1] = 0
        chains = (self.tail, self.head, length_ns)
        for tail, head, length in zip(*(one[::-1].tolist() for one in chains), strict=True):
            longest = rest_ns[head] + length
            if longest > rest_ns[tail]:
                rest_ns[tail] = longest
        elapsed_ns = self.dag.time_ns[self.points] - self.dag.time_ns[0]
        through_ns = elapsed_ns[self.tail] + length_ns + np.array(rest_ns)[self.head]
        spare_ns: NDArray[int64] = self.dag.makespan_ns - through_ns
        return spare_ns

    def narrowed(self, kept: NDArray[bool_]) -> Contracted:
        """With only some of its chains, (K,); junctions keep their numbers.

        Those with a slack up to s are enough for replays that make nothing longer and save at
        most s, as in `contract`.
        """
        import numpy as np

        length = self.sizes
        return replace(
            self,
            tail=self.tail[kept],
            head=self.head[kept],
            edges=self.edges[np.repeat(kept, length)],
            first=np.cumsum(length[kept]) - length[kept],
        )

    def makespan_ns(self, step_ns: NDArray[int64]) -> int:
        """Of the graph with these steps: what `replay` would say, for a tenth of the work."""
        return self.elapsed(self.lengths(step_ns))[-1]

    def longest(self, step_ns: NDArray[int64]) -> tuple[int, NDArray[int64]]:
        """The makespan with these steps, and the edges of the critical path, in order of time."""
        length_ns = self.lengths(step_ns)
        elapsed_ns = self.elapsed(length_ns)
        return elapsed_ns[-1], self.way(length_ns, elapsed_ns)

    def way(self, length_ns: NDArray[int64], elapsed_ns: list[int]) -> NDArray[int64]:
        """The edges of the critical path, from what `lengths` and `elapsed` say."""
        import numpy as np

        at_ns, last = np.array(elapsed_ns, dtype=np.int64), self.last
        tight = last[at_ns[self.tail] + length_ns == at_ns[self.head]]
        held_by = binding_edges(self.dag, tight)[self.points]
        chain = np.where(held_by >= 0, np.searchsorted(last, held_by), -1)
        return self._edges_of(walk_back(self.tail, chain))

    def _edges_of(self, chains: NDArray[int64]) -> NDArray[int64]:
        """The edges of some chains, one after another."""
        import numpy as np

        length = self.sizes[chains]
        begins = self.first[chains] - (np.cumsum(length) - length)
        places = np.repeat(begins, length) + np.arange(length.sum())
        edges: NDArray[int64] = self.edges[places]
        return edges


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
    import numpy as np

    edges = np.arange(dag.edges) if kept is None else np.flatnonzero(kept)
    tail, head = dag.tail[edges], dag.head[edges]
    inward = np.bincount(head, minlength=dag.points)
    outward = np.bincount(tail, minlength=dag.points)
    inner = (inward == 1) & (outward == 1)
    junction = ~inner & (inward + outward > 0)
    junction[[0, -1]] = True
    number = np.cumsum(junction) - 1
    begin = _first_edges(tail, head, inner)
    (ends,) = np.nonzero(junction[head])
    chain = np.empty(len(edges), dtype=np.int64)
    chain[begin[ends]] = np.arange(len(ends))
    chain = chain[begin]
    order = np.argsort(chain, kind="stable")
    return Contracted(
        dag=dag,
        points=np.flatnonzero(junction),
        tail=number[tail[begin[ends]]].astype(np.int32),
        head=number[head[ends]].astype(np.int32),
        edges=edges[order],
        first=np.flatnonzero(np.diff(chain[order], prepend=-1)),
    )


def _first_edges(
    tail: NDArray[int32], head: NDArray[int32], inner: NDArray[bool_]
) -> NDArray[int64]:
    """The edge that the chain of each begins with, (E,), by doubling how far one looks back."""
    import numpy as np

    own = np.arange(len(tail))
    into = np.zeros(len(inner), dtype=np.int64)
    into[head] = own
    first = np.where(inner[tail], into[tail], own)
    while True:
        earlier = first[first]
        if np.array_equal(earlier, first):
            return first
        first = earlier
