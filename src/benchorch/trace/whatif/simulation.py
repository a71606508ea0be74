"""Makespan and path of a hypothesis.

Most hypotheses change some weights and nothing else. Then only the changed edges are visited, and
the few chains that the makespan can come to depend on; the new path is given as the observed one
with what it has more and less of. Anything else is a replay of the whole graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.attribution.gains import gains
from benchorch.trace.critical_path.contraction import Contracted, contract, explained, whole
from benchorch.trace.critical_path.path import path_along
from benchorch.trace.critical_path.replay import steps
from benchorch.trace.dag import CLASSES, NOBODY, Class, CriticalPath, Dag, Tier
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.hypothesis import Hypothesis, unchanged
from benchorch.trace.whatif.transforms import Transform


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTimes:
    """Time of D segments of a path, with the columns of their edges."""

    label: NDArray[np.int8]
    tier: NDArray[np.int8]
    owner: NDArray[np.int32]
    ns: NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisOutcome:
    """The outcome of a hypothesis.

    Attributes:
        makespan_ns: the new one.
        more: what the new path has more of than the observed one; less of it is negative.
        path: the new one where it had to be worked out, else `path_of` does.
    """

    makespan_ns: int
    more: SegmentTimes
    path: CriticalPath | None = None


def hypothesis_of(basis: Basis, changes: Sequence[Transform]) -> Hypothesis:
    """The weights that the changes lead to."""
    hypothesis = unchanged(basis.dag)
    for change in changes:
        hypothesis = change.apply(basis, hypothesis)
    return hypothesis


def makespan_ns(basis: Basis, hypothesis: Hypothesis) -> int:
    """The makespan of a replay with the hypothesis's weights."""
    if hypothesis.only_weights:
        return _NearReplay(basis.dag, hypothesis).elapsed_ns[-1]
    dag, changed = hypothesis.rewired()
    return _graph(basis, dag).makespan_ns(steps(dag, *changed))


def explained_ns(basis: Basis, hypothesis: Hypothesis) -> int:
    """The makespan without unexplained time."""
    if hypothesis.same_dependencies:
        return _NearReplay(explained(basis.dag), hypothesis).elapsed_ns[-1]
    return makespan_ns(basis, replace(hypothesis, residual_ns=hypothesis.residual_ns * 0.0))


def outcome(basis: Basis, hypothesis: Hypothesis) -> HypothesisOutcome:
    """The new makespan, and the path that it consists of: the observed one as long as it can be."""
    if not hypothesis.only_weights:
        total_ns, path = _replayed(basis, hypothesis)
        return HypothesisOutcome(makespan_ns=total_ns, more=_instead(basis, path), path=path)
    near = _NearReplay(basis.dag, hypothesis)
    gained, lost = near.detour()
    return HypothesisOutcome(makespan_ns=near.elapsed_ns[-1], more=_more(near, gained, lost))


def path_of(basis: Basis, hypothesis: Hypothesis) -> CriticalPath:
    """The path of an outcome."""
    if not hypothesis.only_weights:
        return _replayed(basis, hypothesis)[1]
    gained, lost = _NearReplay(basis.dag, hypothesis).detour()
    on_path = gains(basis.dag).is_on_path.copy()
    on_path[gained], on_path[lost] = True, False
    weight_ns = np.rint(hypothesis.weight_ns).astype(np.int64)
    return path_along(basis.dag, np.flatnonzero(on_path), weight_ns, basis.dag.residual_ns)


class _NearReplay:
    """Replay of a graph with other weights on the chains that can matter to it."""

    def __init__(self, dag: Dag, hypothesis: Hypothesis) -> None:
        self.dag, self.hypothesis, self.gains = dag, hypothesis, gains(dag)
        edges = hypothesis.reweighted
        less_ns = dag.weight_ns[edges] - self.weight_ns(edges)
        on_path = self.gains.is_on_path[edges]
        self.on_path, self.spared_ns = edges[on_path], less_ns[on_path]
        self.left_ns = dag.makespan_ns - int(self.spared_ns.sum())
        shorter = bool((less_ns >= 0).all())
        self.graph = self.gains.contracted(dag.makespan_ns - (self.left_ns if shorter else 0))
        self.length_ns = self.graph.lengths(whole(dag).shortened(edges, less_ns))
        self.elapsed_ns = self.graph.elapsed(self.length_ns)

    def weight_ns(self, edges: NDArray[np.int64]) -> NDArray[np.int64]:
        """The new ones of some edges."""
        return np.rint(self.hypothesis.weight_ns[edges]).astype(np.int64)

    def detour(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The edges that the path has gained, and those that it has lost."""
        before = self.gains.is_on_path[self.graph.last]
        after = before
        if self.elapsed_ns[-1] != self.left_ns:
            after = np.zeros(len(before), dtype=np.bool_)
            after[self.graph.critical_chains(self.length_ns, self.elapsed_ns)] = True
        return self._edges(after & ~before), self._edges(before & ~after)

    def _edges(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Those of some of the graph's chains."""
        return whole(self.dag).edges_of(self.graph.edges_of(np.flatnonzero(chosen)))


def _more(near: _NearReplay, gained: NDArray[np.int64], lost: NDArray[np.int64]) -> SegmentTimes:
    """Additional time of a path: saved on reweighted edges, then gained and lost edges."""
    dag = near.dag
    edges = np.concatenate((near.on_path, gained, lost))
    weight_ns = (-near.spared_ns, near.weight_ns(gained), -near.weight_ns(lost))
    rest_ns = dag.residual_ns[dag.head[gained]].sum() - dag.residual_ns[dag.head[lost]].sum()
    return SegmentTimes(
        label=np.append(dag.label[edges], np.int8(CLASSES.index(Class.UNEXPLAINED))),
        tier=np.append(dag.tier[edges], np.int8(Tier.UNEXPLAINED)),
        owner=np.append(dag.owner[edges], np.int32(NOBODY)),
        ns=np.append(np.concatenate(weight_ns), rest_ns),
    )


def _instead(basis: Basis, path: CriticalPath) -> SegmentTimes:
    """All of a new path, and none of the observed one."""
    both = {
        entry.name: np.append(getattr(path, entry.name), getattr(basis.path, entry.name))
        for entry in fields(SegmentTimes)
        if entry.name != "ns"
    }
    return SegmentTimes(**both, ns=np.append(path.duration_ns, -basis.path.duration_ns))


def _replayed(basis: Basis, hypothesis: Hypothesis) -> tuple[int, CriticalPath]:
    """The makespan and the path of a replay of all of it."""
    dag, changed = hypothesis.rewired()
    weight_ns, residual_ns, dropped = changed
    total_ns, edges = _graph(basis, dag).longest(steps(dag, *changed))
    # A dropped edge that is left on the path stays for the order alone.
    held_ns = weight_ns if dropped is None else np.where(dropped, 0, weight_ns)
    return total_ns, path_along(dag, edges, held_ns, residual_ns)


def _graph(basis: Basis, dag: Dag) -> Contracted:
    """What to replay on."""
    return whole(dag) if dag is basis.dag else contract(dag)
