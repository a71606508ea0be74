"""What becomes of the run if its times are those of a scenario?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchorch.trace.contraction import contract
from benchorch.trace.path import path_along, retimed
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
    return _graph(basis, dag, changed, _left(basis, changed)).makespan_ns(steps(dag, *changed))


def outcome(basis: Basis, scenario: Scenario) -> tuple[int, CriticalPath]:
    """The new makespan, and the path that it consists of: the observed one as long as it can be."""
    import numpy as np

    dag, changed = rewired(basis.dag, scenario)
    weight_ns, residual_ns, dropped = changed
    left_ns = _left(basis, changed)
    graph = _graph(basis, dag, changed, left_ns)
    length_ns = graph.lengths(steps(dag, *changed))
    elapsed_ns = graph.elapsed(length_ns)
    if dag is basis.dag and elapsed_ns[-1] == left_ns:
        return elapsed_ns[-1], retimed(dag, basis.path, weight_ns, residual_ns)
    edges = graph.way(length_ns, elapsed_ns)
    # A dropped edge that is left on the path stays for the order alone.
    held_ns = weight_ns if dropped is None else np.where(dropped, 0, weight_ns)
    return elapsed_ns[-1], path_along(dag, edges, held_ns, residual_ns)


def _graph(basis: Basis, dag: Dag, changed: Changed, left_ns: int | None) -> Contracted:
    """What to replay on: if nothing got longer, only chains with no more to spare than is saved."""
    if dag is not basis.dag:
        return contract(dag)
    shorter = (changed[0] <= dag.weight_ns).all() and (changed[1] <= dag.residual_ns).all()
    if left_ns is None or not shorter:
        return basis.contracted
    return basis.contracted.narrowed(basis.spare_ns <= dag.makespan_ns - left_ns)


def _left(basis: Basis, changed: Changed) -> int | None:
    """How long the observed path still is, at least; None where some of it may be gone."""
    weight_ns, residual_ns, dropped = changed
    if dropped is not None:
        return None
    return int(weight_ns[basis.path_edges].sum() + residual_ns[basis.path_points].sum())
