"""Changed times and dependencies of a graph: the hypothesis that a prediction replays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.arrays import Bools, Floats, Int32s, Int64s
from benchorch.trace.dag import CLASSES, NOBODY, Class, Dag, EdgeKind, Tier

Changed: TypeAlias = "tuple[Int64s, Int64s, Bools | None]"
"""Weights, residuals and dropped edges, in the order that `steps` takes them."""


@final
@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """Other weights for the E edges and V points of a graph."""

    dag: Dag  # the graph
    weight_ns: Floats  # (E,) not yet rounded, so that the order of scalings does not matter
    residual_ns: Floats  # (V,) likewise
    dropped: Bools  # (E,) dependencies to be without
    best_ratio: Floats  # (E,) the part of each weight that is left if all goes well
    # new dependencies: tail, head and weight, each (A,)
    added: tuple[Int64s, Int64s, Int64s] | None = None
    # remarks of the transforms, such as how much of the work they found
    notes: tuple[str, ...] = ()

    def scaled(self, edges: Bools, ratio: float | Floats) -> Hypothesis:
        """Hypothesis with the weights of some edges scaled; one ratio, or one for each of E."""
        places = np.flatnonzero(edges)
        weight_ns = self.weight_ns.copy()
        weight_ns[places] *= ratio[places] if isinstance(ratio, np.ndarray) else ratio
        return replace(self, weight_ns=weight_ns)

    def adding(self, tail: Int64s, head: Int32s, weight_ns: Int64s) -> Hypothesis:
        """Hypothesis with more dependencies."""
        more = (tail, head.astype(np.int64), weight_ns)
        if self.added is None:
            return replace(self, added=more)
        tails, heads, weights = map(np.append, self.added, more)
        return replace(self, added=(tails, heads, weights))

    def noting(self, note: str) -> Hypothesis:
        """Hypothesis with one more note."""
        return replace(self, notes=(*self.notes, note))

    def rewired(self) -> tuple[Dag, Changed]:
        """The graph with the added dependencies, if there are any, and the changes for `steps`."""
        weight_ns = np.rint(self.weight_ns).astype(np.int64)
        residual_ns = np.rint(self.residual_ns).astype(np.int64)
        dropped = self.dropped if self.dropped.any() else None
        if self.added is None:
            return self.dag, (weight_ns, residual_ns, dropped)
        tail, head, more_ns = self.added
        order = np.argsort(np.append(self.dag.head, head), kind="stable")

        def extended(column: NDArray[Any], values: NDArray[Any] | int) -> NDArray[Any]:
            added = np.broadcast_to(values, tail.shape)
            return np.append(column, added)[order].astype(column.dtype)

        larger = replace(
            self.dag,
            tail=extended(self.dag.tail, tail),
            head=extended(self.dag.head, head),
            weight_ns=extended(self.dag.weight_ns, more_ns),
            kind=extended(self.dag.kind, EdgeKind.STREAM),
            tier=extended(self.dag.tier, Tier.SEMANTIC),
            label=extended(self.dag.label, CLASSES.index(Class.STREAM_GAP)),
            owner=extended(self.dag.owner, NOBODY),
        )
        still_dropped = None if dropped is None else extended(dropped, 0).astype(np.bool_)
        return larger, (extended(weight_ns, more_ns), residual_ns, still_dropped)


def unchanged(dag: Dag, weight_ns: Int64s | None = None) -> Hypothesis:
    """The graph as it is, or with other weights."""
    return Hypothesis(
        dag=dag,
        weight_ns=(dag.weight_ns if weight_ns is None else weight_ns).astype(np.float64),
        residual_ns=dag.residual_ns.astype(np.float64),
        dropped=np.broadcast_to(np.False_, dag.edges),
        best_ratio=np.broadcast_to(np.float64(1.0), dag.edges),
    )
