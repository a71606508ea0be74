"""What does a scenario make of the graph: whole nanoseconds, and dependencies there were not?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy import bool_, int64
from numpy.typing import NDArray

from benchorch.trace.dag import CLASSES, NOBODY, Class, Dag, EdgeKind, Tier
from benchorch.trace.whatif.scenario import Hypothesis

Changed: TypeAlias = "tuple[NDArray[int64], NDArray[int64], NDArray[bool_] | None]"
"""Weights, residuals and dropped edges, in the order that `steps` takes them."""


def rewired(dag: Dag, scenario: Hypothesis) -> tuple[Dag, Changed]:
    """The graph with what was added, and what `steps` wants to know of the rest.

    Without additions it is the graph itself.
    """
    weight_ns = np.rint(scenario.weight_ns).astype(np.int64)
    residual_ns = np.rint(scenario.residual_ns).astype(np.int64)
    dropped = scenario.dropped if scenario.dropped.any() else None
    if scenario.added is None:
        return dag, (weight_ns, residual_ns, dropped)
    tail, head, more_ns = scenario.added
    order = np.argsort(np.append(dag.head, head), kind="stable")

    def with_added(column: NDArray[Any], values: NDArray[Any] | int) -> NDArray[Any]:
        added = np.broadcast_to(values, tail.shape)
        return np.append(column, added)[order].astype(column.dtype)

    longer = replace(
        dag,
        tail=with_added(dag.tail, tail),
        head=with_added(dag.head, head),
        weight_ns=with_added(dag.weight_ns, more_ns),
        kind=with_added(dag.kind, EdgeKind.STREAM),
        tier=with_added(dag.tier, Tier.SEMANTIC),
        label=with_added(dag.label, CLASSES.index(Class.STREAM_GAP)),
        owner=with_added(dag.owner, NOBODY),
    )
    return longer, (
        with_added(weight_ns, more_ns),
        residual_ns,
        with_added(scenario.dropped, 0).astype(np.bool_) if dropped is not None else None,
    )
