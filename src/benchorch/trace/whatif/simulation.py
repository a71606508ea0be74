"""What becomes of the run if its times are those of a scenario?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchorch.trace.contraction import contract
from benchorch.trace.path import path_along
from benchorch.trace.replay import steps
from benchorch.trace.whatif.rewiring import Changed, rewired
from benchorch.trace.whatif.scenario import unchanged

if TYPE_CHECKING:
    from benchorch.trace.contraction import Contracted
    from benchorch.trace.dag import CriticalPath, Dag
    from benchorch.trace.whatif.basis import Basis
    from benchorch.trace.whatif.scenario import Scenario
    from benchorch.trace.whatif.transforms import Transform


def scenario_of(basis: Basis, changes: Sequence[Transform]) -> Scenario:
    """The weights that the changes lead to."""
    scenario = unchanged(basis.dag)
    for change in changes:
        scenario = change.apply(basis, scenario)
    return scenario


def makespan_ns(basis: Basis, scenario: Scenario) -> int:
    """Of a replay with the scenario's weights; for when that alone is wanted."""
    dag, changed = rewired(basis.dag, scenario)
    return _graph(basis, dag, changed).makespan_ns(steps(dag, *changed))


def outcome(basis: Basis, scenario: Scenario) -> tuple[int, CriticalPath]:
    """The new makespan, and the path that it consists of."""
    import numpy as np

    dag, changed = rewired(basis.dag, scenario)
    weight_ns, residual_ns, dropped = changed
    total_ns, edges = _graph(basis, dag, changed).longest(steps(dag, *changed))
    # A dropped edge that is left on the path stays for the order alone.
    held_ns = weight_ns if dropped is None else np.where(dropped, 0, weight_ns)
    return total_ns, path_along(dag, edges, held_ns, residual_ns)


def _graph(basis: Basis, dag: Dag, changed: Changed) -> Contracted:
    """What to replay on: if nothing got longer, only chains with no more to spare than is saved."""
    if dag is not basis.dag:
        return contract(dag)
    saved_ns = _most_saved(basis, changed)
    if saved_ns is None:
        return basis.contracted
    return basis.contracted.narrowed(basis.spare_ns <= saved_ns)


def _most_saved(basis: Basis, changed: Changed) -> int | None:
    """By how much the old path got shorter, which is still there; None if others may be longer."""
    weight_ns, residual_ns, dropped = changed
    dag = basis.dag
    shorter = (weight_ns <= dag.weight_ns).all() and (residual_ns <= dag.residual_ns).all()
    if dropped is not None or not shorter:
        return None
    left_ns = weight_ns[basis.path_edges].sum() + residual_ns[basis.path_points].sum()
    return dag.makespan_ns - int(left_ns)
