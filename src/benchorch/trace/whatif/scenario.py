"""What has been changed so far about a graph, on the way to a prediction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from numpy import bool_, float64, int32, int64
from numpy.typing import NDArray

from benchorch.trace.dag import Dag


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """Other weights for the E edges and V points of a graph.

    Attributes:
        dag: the graph.
        weight_ns: (E,) not yet rounded, so that the order of scalings does not matter.
        residual_ns: (V,) likewise.
        dropped: (E,) dependencies to be without.
        best_ratio: (E,) the part of each weight that is left if all goes well.
        added: dependencies that there were not: tail, head and weight, each (A,).
        notes: what the transforms have to say, such as how much of the work they found.
        known: what was worked out of it already; a changed copy begins anew.
    """

    dag: Dag
    weight_ns: NDArray[float64]
    residual_ns: NDArray[float64]
    dropped: NDArray[bool_]
    best_ratio: NDArray[float64]
    added: tuple[NDArray[int64], NDArray[int64], NDArray[int64]] | None = None
    notes: tuple[str, ...] = ()
    known: dict[str, NDArray[int64]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def scaled(self, edges: NDArray[bool_], ratio: float | NDArray[float64]) -> Hypothesis:
        """With the weights of some edges times a ratio; one for all, or one for each of E."""
        places = np.flatnonzero(edges)
        weight_ns = self.weight_ns.copy()
        weight_ns[places] *= ratio[places] if isinstance(ratio, np.ndarray) else ratio
        return replace(self, weight_ns=weight_ns)

    @property
    def as_wired(self) -> bool:
        """Whether the dependencies are those that there were."""
        return self.added is None and not self.dropped.any()

    @property
    def only_weights(self) -> bool:
        """Whether all else is as `unchanged` has it."""
        return self.residual_ns is unchanged(self.dag).residual_ns and self.as_wired

    @property
    def reweighted(self) -> NDArray[int64]:
        """The edges with another weight than observed, ascending."""
        if "edges" not in self.known:
            observed_ns = unchanged(self.dag).weight_ns
            self.known["edges"] = np.flatnonzero(self.weight_ns != observed_ns)
        return self.known["edges"]

    def adding(
        self, tail: NDArray[int64], head: NDArray[int32], weight_ns: NDArray[int64]
    ) -> Hypothesis:
        """With more dependencies that there were not."""
        more = (tail, head.astype(np.int64), weight_ns)
        if self.added is None:
            return replace(self, added=more)
        tails, heads, weights = (
            np.append(old, new) for old, new in zip(self.added, more, strict=True)
        )
        return replace(self, added=(tails, heads, weights))

    def noting(self, *notes: str) -> Hypothesis:
        """With something more to say."""
        return replace(self, notes=self.notes + notes)


def unchanged(dag: Dag) -> Hypothesis:
    """Everything as observed, once for each graph; not to be written to."""
    if "unchanged" not in dag.known:
        dag.known["unchanged"] = Hypothesis(
            dag=dag,
            weight_ns=dag.weight_ns.astype(np.float64),
            residual_ns=dag.residual_ns.astype(np.float64),
            dropped=np.broadcast_to(np.False_, dag.edges),
            best_ratio=np.broadcast_to(np.float64(1.0), dag.edges),
        )
    found: Hypothesis = dag.known["unchanged"]
    return found
