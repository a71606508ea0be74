"""What becomes of the run if its times are those of a scenario?

Most scenarios change some weights and nothing else. Then all that is looked at is what changed, and
the few chains that the makespan can come to depend on; the new path is told as the observed one
with what it has more and less of. Anything else is a replay of the whole graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import final

import numpy as np
from numpy import bool_, int8, int32, int64
from numpy.typing import NDArray

from benchorch.trace.attribution.gains import gains
from benchorch.trace.critical_path.contraction import Contracted, contract, whole
from benchorch.trace.critical_path.explained import explained
from benchorch.trace.critical_path.path import path_along
from benchorch.trace.critical_path.replay import steps
from benchorch.trace.dag import CLASSES, NOBODY, Class, CriticalPath, Dag, Tier
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.rewiring import rewired
from benchorch.trace.whatif.scenario import Hypothesis, unchanged
from benchorch.trace.whatif.transforms import Transform


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PieceTimes:
    """Time of D pieces of a path: what each belongs to, as an edge's columns say, and how long."""

    label: NDArray[int8]
    tier: NDArray[int8]
    owner: NDArray[int32]
    ns: NDArray[int64]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisOutcome:
    """What a scenario leads to.

    Attributes:
        makespan_ns: the new one.
        more: what the new path has more of than the observed one; less of it is negative.
        path: the new one where it had to be worked out, else `path_of` does.
    """

    makespan_ns: int
    more: PieceTimes
    path: CriticalPath | None = None


def scenario_of(basis: Basis, changes: Sequence[Transform]) -> Hypothesis:
    """The weights that the changes lead to."""
    scenario = unchanged(basis.dag)
    for change in changes:
        scenario = change.apply(basis, scenario)
    return scenario


def makespan_ns(basis: Basis, scenario: Hypothesis) -> int:
    """Of a replay with the scenario's weights; for when that alone is wanted."""
    if scenario.only_weights:
        return _Near(basis.dag, scenario).elapsed_ns[-1]
    dag, changed = rewired(basis.dag, scenario)
    return _graph(basis, dag).makespan_ns(steps(dag, *changed))


def explained_ns(basis: Basis, scenario: Hypothesis) -> int:
    """The makespan without unexplained rests."""
    if scenario.as_wired:
        return _Near(explained(basis.dag), scenario).elapsed_ns[-1]
    return makespan_ns(basis, replace(scenario, residual_ns=scenario.residual_ns * 0.0))


def outcome(basis: Basis, scenario: Hypothesis) -> HypothesisOutcome:
    """The new makespan, and the path that it consists of: the observed one as long as it can be."""
    if not scenario.only_weights:
        total_ns, path = _replayed(basis, scenario)
        return HypothesisOutcome(makespan_ns=total_ns, more=_instead(basis, path), path=path)
    near = _Near(basis.dag, scenario)
    gained, lost = near.detour()
    return HypothesisOutcome(makespan_ns=near.elapsed_ns[-1], more=_more(near, gained, lost))


def path_of(basis: Basis, scenario: Hypothesis) -> CriticalPath:
    """The path of an outcome."""
    if not scenario.only_weights:
        return _replayed(basis, scenario)[1]
    gained, lost = _Near(basis.dag, scenario).detour()
    on_path = gains(basis.dag).is_on_path.copy()
    on_path[gained], on_path[lost] = True, False
    weight_ns = np.rint(scenario.weight_ns).astype(np.int64)
    return path_along(basis.dag, np.flatnonzero(on_path), weight_ns, basis.dag.residual_ns)


class _Near:
    """A replay of a graph, of which only weights differ, on the chains that can matter to it."""

    def __init__(self, dag: Dag, scenario: Hypothesis) -> None:
        self.dag, self.scenario, self.gains = dag, scenario, gains(dag)
        edges = scenario.reweighted
        less_ns = dag.weight_ns[edges] - self.weight_ns(edges)
        on_path = self.gains.is_on_path[edges]
        self.on_path, self.spared_ns = edges[on_path], less_ns[on_path]
        self.left_ns = dag.makespan_ns - int(self.spared_ns.sum())
        shorter = bool((less_ns >= 0).all())
        self.graph = self.gains.contracted(dag.makespan_ns - (self.left_ns if shorter else 0))
        self.length_ns = self.graph.lengths(whole(dag).shortened(edges, less_ns))
        self.elapsed_ns = self.graph.elapsed(self.length_ns)

    def weight_ns(self, edges: NDArray[int64]) -> NDArray[int64]:
        """The new ones of some edges."""
        return np.rint(self.scenario.weight_ns[edges]).astype(np.int64)

    def detour(self) -> tuple[NDArray[int64], NDArray[int64]]:
        """The edges that the path has gained, and those that it has lost."""
        before = self.gains.is_on_path[self.graph.last]
        after = before
        if self.elapsed_ns[-1] != self.left_ns:
            after = np.zeros(len(before), dtype=np.bool_)
            after[self.graph.way(self.length_ns, self.elapsed_ns)] = True
        return self._edges(after & ~before), self._edges(before & ~after)

    def _edges(self, chosen: NDArray[bool_]) -> NDArray[int64]:
        """Those of some of the graph's chains."""
        return whole(self.dag).pieces_of(self.graph.pieces_of(np.flatnonzero(chosen)))


def _more(near: _Near, gained: NDArray[int64], lost: NDArray[int64]) -> PieceTimes:
    """What a path has more: less on edges with another weight, then what it gained and lost."""
    dag = near.dag
    edges = np.concatenate((near.on_path, gained, lost))
    weight_ns = (-near.spared_ns, near.weight_ns(gained), -near.weight_ns(lost))
    rest_ns = dag.residual_ns[dag.head[gained]].sum() - dag.residual_ns[dag.head[lost]].sum()
    return PieceTimes(
        label=np.append(dag.label[edges], np.int8(CLASSES.index(Class.UNEXPLAINED))),
        tier=np.append(dag.tier[edges], np.int8(Tier.UNEXPLAINED)),
        owner=np.append(dag.owner[edges], np.int32(NOBODY)),
        ns=np.append(np.concatenate(weight_ns), rest_ns),
    )


def _instead(basis: Basis, path: CriticalPath) -> PieceTimes:
    """All of a new path, and none of the observed one."""
    both = {
        entry.name: np.append(getattr(path, entry.name), getattr(basis.path, entry.name))
        for entry in fields(PieceTimes)
        if entry.name != "ns"
    }
    return PieceTimes(**both, ns=np.append(path.duration_ns, -basis.path.duration_ns))


def _replayed(basis: Basis, scenario: Hypothesis) -> tuple[int, CriticalPath]:
    """The makespan and the path of a replay of all of it."""
    dag, changed = rewired(basis.dag, scenario)
    weight_ns, residual_ns, dropped = changed
    total_ns, edges = _graph(basis, dag).longest(steps(dag, *changed))
    # A dropped edge that is left on the path stays for the order alone.
    held_ns = weight_ns if dropped is None else np.where(dropped, 0, weight_ns)
    return total_ns, path_along(dag, edges, held_ns, residual_ns)


def _graph(basis: Basis, dag: Dag) -> Contracted:
    """What to replay on."""
    return whole(dag) if dag is basis.dag else contract(dag)
