"""Changed times and dependencies of a graph: the hypothesis that a prediction replays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, final

import numpy as np

from benchorch.trace.arrays import Bools, Floats, Int64s
from benchorch.trace.dag import Dag

Changed: TypeAlias = tuple[Int64s, Int64s, Bools | None]
"""Weights, residuals and dropped edges, in the order that `steps` takes them."""


@final
@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """Other weights for the E edges and V points of a graph.

    Attributes:
        weight_ns: (E,) not yet rounded, so that the order of scalings does not matter.
        residual_ns: (V,) likewise.
        dropped: (E,) dependencies to be without.
        notes: remarks of the transforms, such as how much of the work they found.
    """

    weight_ns: Floats
    residual_ns: Floats
    dropped: Bools
    notes: tuple[str, ...] = ()

    def scaled(self, edges: Bools, ratio: float | Floats) -> Hypothesis:
        """Hypothesis with the weights of some edges scaled; one ratio, or one for each of E."""
        places = np.flatnonzero(edges)
        weight_ns = self.weight_ns.copy()
        weight_ns[places] *= ratio[places] if isinstance(ratio, np.ndarray) else ratio
        return replace(self, weight_ns=weight_ns)

    def noting(self, note: str) -> Hypothesis:
        """Hypothesis with one more note."""
        return replace(self, notes=(*self.notes, note))

    @property
    def changed(self) -> Changed:
        """The same for `steps`."""
        weight_ns = np.rint(self.weight_ns).astype(np.int64)
        residual_ns = np.rint(self.residual_ns).astype(np.int64)
        return weight_ns, residual_ns, self.dropped if self.dropped.any() else None


def unchanged(dag: Dag) -> Hypothesis:
    """Everything as observed."""
    return Hypothesis(
        weight_ns=dag.weight_ns.astype(np.float64),
        residual_ns=dag.residual_ns.astype(np.float64),
        dropped=np.broadcast_to(np.False_, dag.edges),
    )
