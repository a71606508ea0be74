"""Changes of launches and order: fusion, CUDA graphs, overlap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import EdgeKind
from benchorch.trace.events import DEVICE_WORK, NOTHING
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.hypothesis import Hypothesis
from benchorch.trace.whatif.selector import select
from benchorch.trace.whatif.transforms import OnSelection, into, removed_with

_DEVICE_ONLY = "no device work is among it."


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDeviceWork(OnSelection):
    """A change of chosen device work."""

    def work(self, basis: Basis) -> NDArray[np.bool_]:
        """The device work that was chosen, itself or in what was chosen, (n,)."""
        within = select(basis, self.select).root != NOTHING
        in_graph = np.zeros(len(basis.events) + 1, dtype=np.bool_)
        in_graph[basis.dag.event] = True
        found: NDArray[np.bool_] = within & np.isin(basis.events.category, DEVICE_WORK)
        return found & in_graph[:-1]

    def problems(self, basis: Basis) -> list[str]:
        """A selection without work, or without work of a device."""
        found = OnSelection.problems(self, basis)
        return found or ([] if self.work(basis).any() else [_DEVICE_ONLY])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fuse(OnDeviceWork):
    """Chosen device work that follows each other on a stream becomes one, launched as the first.

    It takes as long as they did without the gaps, as if no memory traffic were saved; at best as
    long as the longest of them, as if all of the others' were.
    """

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """No launch, dispatch or gap for any but the first of each run of neighbours."""
        work = self.work(basis)
        run = _runs(basis, work)
        firsts = np.unique(run[work], return_index=True)[1]
        later = work.copy()
        later[np.flatnonzero(work)[firsts]] = False
        host = removed_with(basis, later) & ~removed_with(basis, work & ~later) & ~later
        spared = _without_launches(basis, hypothesis, later, host)
        spared = spared.scaled(into(basis, later, EdgeKind.STREAM), 0.0)
        shorter = basis.owned_by(work & ~_longest(basis, work, run))
        best_ratio = np.where(shorter & (basis.dag.kind == EdgeKind.WORK), 0.0, spared.best_ratio)
        note = f"fuse: {work.sum()} pieces of device work become {work.sum() - later.sum()}."
        return replace(spared, best_ratio=best_ratio).noting(note)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CudaGraph(OnDeviceWork):
    """All device work in each chosen range is launched at once.

    What the host did in the range to launch it piece by piece takes no time, but for the first
    launch; between kernels passes the shortest gap that the trace has.
    """

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """Launches after the first of each range are not waited for."""
        work = self.work(basis)
        root = select(basis, self.select).root
        order = np.flatnonzero(work)
        order = order[np.lexsort((basis.events.start_ns[order], root[order]))]
        later = np.zeros(len(work) + 1, dtype=np.bool_)
        later[order[1:][np.diff(root[order]) == 0]] = True
        kept = np.unique(basis.owned.parent[work & ~later[:-1]])
        host = (root != NOTHING) & ~np.isin(basis.events.category, DEVICE_WORK)
        ranges = np.append(np.isin(root, np.unique(root[work])), False)[:-1]
        host &= ranges
        host[kept[kept >= 0]] = False
        changed = _without_launches(basis, hypothesis, later[:-1], host)
        gap_ns = float(basis.dag.facts.get("stream_gap_ns", 0.0))
        inner = into(basis, later[:-1], EdgeKind.STREAM)
        weight_ns = np.where(inner, np.minimum(changed.weight_ns, gap_ns), changed.weight_ns)
        note = f"cuda_graph: {int(later.sum())} launches of {int(work.sum())} are spared."
        return replace(changed, weight_ns=weight_ns).noting(note)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap(OnDeviceWork):
    """Chosen device work runs on a stream of its own: only its launch and its data hold it up."""

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """What came before it on its stream now holds up what came after it, and who waited."""
        dag, work = basis.dag, np.append(self.work(basis), False)
        leaves, enters = work[dag.event[dag.tail]], work[dag.event[dag.head]]
        order = dag.kind == EdgeKind.STREAM
        before = np.full(len(work), NOTHING, dtype=np.int64)
        before[dag.event[dag.head[order & enters]]] = dag.tail[order & enters]
        passed_on = order | np.isin(dag.kind, (EdgeKind.SYNC, EdgeKind.BOUNDARY))
        edges = np.flatnonzero(passed_on & leaves & ~enters)
        tail = dag.tail[edges].astype(np.int64)
        while (moved := (tail != NOTHING) & work[dag.event[tail]]).any():
            tail[moved] = before[dag.event[tail[moved]]]
        edges, tail = edges[tail != NOTHING], tail[tail != NOTHING]
        gap_ns = hypothesis.weight_ns[edges].astype(np.int64)
        dropped = hypothesis.dropped | order & (leaves | enters)
        return replace(hypothesis, dropped=dropped).adding(tail, dag.head[edges], gap_ns)


def _runs(basis: Basis, work: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The number of the run of neighbours on a stream that chosen work is in, (n,)."""
    events, dag = basis.events, basis.dag
    in_graph = np.zeros(len(events) + 1, dtype=np.bool_)
    in_graph[dag.event] = True
    order = np.flatnonzero(np.isin(events.category, DEVICE_WORK) & in_graph[:-1])
    order = order[np.lexsort((events.start_ns[order], events.lane[order]))]
    follows = (np.diff(events.lane[order]) == 0) & work[order[:-1]] & work[order[1:]]
    run = np.full(len(events), NOTHING, dtype=np.int64)
    run[order] = np.cumsum(np.insert(~follows, 0, True)[: len(order)])
    return np.where(work, run, NOTHING)


def _longest(basis: Basis, work: NDArray[np.bool_], run: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Of each run the longest, the first of equals, (n,)."""
    chosen = np.flatnonzero(work)
    order = chosen[np.lexsort((-basis.events.duration_ns[chosen], run[chosen]))]
    found = np.zeros(len(work), dtype=np.bool_)
    found[order[np.flatnonzero(np.diff(run[order], prepend=NOTHING))]] = True
    return found


def _without_launches(
    basis: Basis, hypothesis: Hypothesis, work: NDArray[np.bool_], host: NDArray[np.bool_]
) -> Hypothesis:
    """Some device work is no longer launched, and what the host did for it takes no time."""
    dropped = hypothesis.dropped | into(basis, work, EdgeKind.LAUNCH)
    spared = basis.owned_by(host)
    return replace(hypothesis, dropped=dropped).scaled(spared, 0.0)
