"""What becomes of the run if its times are those of a scenario?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchorch.trace.contraction import contract
from benchorch.trace.path import path_along
from benchorch.trace.replay import steps
from benchorch.trace.whatif.rewiring import rewired
from benchorch.trace.whatif.scenario import unchanged

if TYPE_CHECKING:
    from numpy import bool_, int64
    from numpy.typing import NDArray

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
    dag, rounded = rewired(basis.dag, scenario)
    contracted = basis.contracted if dag is basis.dag else contract(dag)
    return contracted.makespan_ns(steps(dag, *rounded))


def outcome(basis: Basis, scenario: Scenario) -> tuple[int, CriticalPath]:
    """The new makespan, and the path that it consists of."""
    dag, (weight_ns, residual_ns, dropped) = rewired(basis.dag, scenario)
    contracted = basis.contracted if dag is basis.dag else contract(dag)
    total_ns, edges = contracted.longest(steps(dag, weight_ns, residual_ns, dropped))
    held = _held(dag, weight_ns, dropped)
    return total_ns, path_along(dag, edges, held, residual_ns)


def _held(dag: Dag, weight_ns: NDArray[int64], dropped: NDArray[bool_] | None) -> NDArray[int64]:
    """Weights, 0 where an edge stays for the order alone."""
    import numpy as np

    return weight_ns if dropped is None else np.where(dropped, 0, weight_ns)
