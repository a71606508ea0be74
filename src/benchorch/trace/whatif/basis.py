"""What a what-if is asked of: an analysed trace, with what every question needs worked out once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy import bool_, int64
from numpy.typing import NDArray

from benchorch.trace.analysed import Replayable
from benchorch.trace.attribution.entities import Entities
from benchorch.trace.attribution.nodes import graph_nodes
from benchorch.trace.attribution.owners import Owners, module_names, owners
from benchorch.trace.dag import CLASSES, Class, CriticalPath, Dag
from benchorch.trace.events import NOTHING, Events
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trace.operators.roofline import Peaks

DEEPEST = 1_000
"""Levels that are looked at; in a broken trace an event may seem to lie in itself."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """An analysed trace of n events, V points and E edges.

    Attributes:
        events, dag, path, graph: of the analysis.
        owned: what each event belongs to.
        module: (n,) number of each event's module, NOTHING for none; `modules` are their names.
        peaks: what the machine can do, None where nobody measured it.
        others: trials by name whose times can be swapped in.
        known: what was worked out of it already; a changed copy begins anew.
    """

    events: Events
    dag: Dag
    path: CriticalPath
    graph: OperatorGraph | None
    owned: Owners
    module: NDArray[int64]
    modules: tuple[str, ...]
    peaks: Peaks | None = None
    others: Mapping[str, Basis] = field(default_factory=dict)
    known: dict[Hashable, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    def within(self, chosen: NDArray[bool_]) -> NDArray[int64]:
        """The outermost chosen event that each is, or is part of, (n,); NOTHING for none."""
        parent = self.owned.parent
        root = np.where(chosen, np.arange(len(parent), dtype=np.int64), NOTHING)
        told = np.append(chosen, False)
        for _ in range(DEEPEST):
            below = np.flatnonzero(told[parent])
            if not len(below):
                break
            root[below] = root[parent[below]]  # an outer one comes later, and wins
            told[:] = False
            told[below] = True
        return root

    def nodes(self) -> Entities:
        """The nodes of the operator graph that each event did the work of."""
        return graph_nodes(self.events, self.owned, self.graph)

    def labelled(self, *classes: Class) -> NDArray[bool_]:
        """The edges whose weight is spent on one of some classes, (E,)."""
        if classes not in self.known:
            meant = np.array([one in classes for one in CLASSES])
            self.known[classes] = meant[self.dag.label]
        found: NDArray[bool_] = self.known[classes].copy()
        return found

    def owned_by(self, chosen: NDArray[bool_]) -> NDArray[bool_]:
        """The edges whose weight belongs to chosen events, (E,)."""
        return np.append(chosen, False)[self.dag.owner]


def prepare(
    analysis: Replayable | Basis,
    peaks: Peaks | None = None,
    others: Mapping[str, Replayable] | None = None,
) -> Basis:
    """What any number of what-ifs can be asked of; the same again of what is prepared already."""
    if isinstance(analysis, Basis):
        return analysis
    owned = owners(analysis.events)
    module, modules = module_names(analysis.events, owned)
    dag, path = analysis.dag, analysis.path
    return Basis(
        events=analysis.events,
        dag=dag,
        path=path,
        graph=analysis.graph,
        owned=owned,
        module=module,
        modules=modules,
        peaks=peaks,
        others={name: prepare(other) for name, other in (others or {}).items()},
    )
