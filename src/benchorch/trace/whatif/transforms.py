"""Changes of how long work takes, and of how it is launched and ordered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Protocol, TypeAlias, final

import numpy as np

from benchorch.trace.arrays import Bools, Floats, Int64s, mask, scattered
from benchorch.trace.dag import HOST, Class, Dag, EdgeKind, Tier
from benchorch.trace.events import NOTHING
from benchorch.trace.graph.edge_list import Edges, edges, joined
from benchorch.trace.graph.time_classes import named_as_wait
from benchorch.trace.lookup import longest
from benchorch.trace.whatif.basis import Basis, Selection, Selector
from benchorch.trace.whatif.selector import problems, select

WAITS = (EdgeKind.SYNC, EdgeKind.WAIT, EdgeKind.JOIN)

FITS_RATIO = 0.05
"""Share of a thread's work to be spared for an interval to hold that the rest fits a cache.

Sizes of caches and data are not recorded: sparing a share makes the rest fit about as likely as it
is large, and what is less likely than this is what a side of a 90 % interval leaves out.
"""

Changed: TypeAlias = "tuple[Int64s, Int64s, Bools | None]"
"""Weights, residuals and dropped edges, in the order that `steps` takes them."""


@final
@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """Other weights for the E edges and V points of a graph."""

    dag: Dag  # the graph
    weight_ns: Floats  # (E,) not yet rounded, so that the order of scalings does not matter
    residual_ns: Floats  # (V,) likewise
    dropped: Bools  # (E,) dependencies to be without
    best_ratio: Floats  # (E,) the part of each weight that is left if all goes well
    cached_ratio: Floats  # (E,) the part that is left if the data of what remains fits a cache
    added: Edges | None = None  # new dependencies, where there may be some
    # remarks of the transforms, such as how much of the work they found
    notes: tuple[str, ...] = ()

    def scaled(self, edges: Bools, ratio: float | Floats) -> "Hypothesis":
        """Hypothesis with the weights of some edges scaled; one ratio, or one for each of E."""
        places = np.flatnonzero(edges)
        weight_ns = self.weight_ns.copy()
        weight_ns[places] *= ratio[places] if isinstance(ratio, np.ndarray) else ratio
        return replace(self, weight_ns=weight_ns)

    def noting(self, note: str) -> "Hypothesis":
        """Hypothesis with one more note."""
        return replace(self, notes=(*self.notes, note))

    def rewired(self) -> tuple[Dag, Changed]:
        """The graph with the added dependencies, if there are any, and the changes for `steps`."""
        weight_ns = np.rint(self.weight_ns).astype(np.int64)
        residual_ns = np.rint(self.residual_ns).astype(np.int64)
        dropped = self.dropped if self.dropped.any() else None
        if self.added is None:
            return self.dag, (weight_ns, residual_ns, dropped)
        order = np.argsort(np.append(self.dag.head, self.added.head), kind="stable")
        columns: dict[str, Any] = {
            one.name: np.append(getattr(self.dag, one.name), getattr(self.added, one.name))[order]
            for one in fields(Edges)
        }
        weight_ns = np.append(weight_ns, self.added.weight_ns)[order]
        if dropped is not None:
            dropped = np.append(dropped, np.zeros(len(self.added), dtype=np.bool_))[order]
        return replace(self.dag, **columns), (weight_ns, residual_ns, dropped)


class Transform(Protocol):
    """Change of a hypothesis; applied in order."""

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """The hypothesis with the change made."""

    def problems(self, basis: Basis) -> list[str]:
        """Sentences why the change does not apply to this trace; none where it does."""


def hypothesis_of(
    basis: Basis, changes: Sequence[Transform], weight_ns: Int64s | None = None
) -> Hypothesis:
    """The weights that the changes lead to, from the basis's or from other ones."""
    dag = basis.dag
    found = Hypothesis(
        dag=dag,
        weight_ns=(dag.weight_ns if weight_ns is None else weight_ns).astype(np.float64),
        residual_ns=dag.residual_ns.astype(np.float64),
        dropped=np.broadcast_to(np.False_, dag.edges),
        best_ratio=np.broadcast_to(np.float64(1.0), dag.edges),
        cached_ratio=np.broadcast_to(np.float64(1.0), dag.edges),
    )
    for change in changes:
        found = change.apply(basis, found)
    return found


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One effect, a key of `EFFECTS`, on chosen work or, where it is a key of `OVERALL`, on all."""

    effect: str
    value: float = 1.0  # ratio or nanoseconds
    select: Selector = field(default_factory=Selector)

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """The hypothesis with the change made."""
        return _with_caches(basis, hypothesis, EFFECTS[self.effect](basis, hypothesis, self))

    def problems(self, basis: Basis) -> list[str]:
        """A selector that finds nothing, or nothing of a device; a trace without launches."""
        if self.effect == "launch_latency_ns":
            launches = (basis.dag.kind == EdgeKind.LAUNCH).any()
            return [] if launches else ["nothing is launched here."]
        if self.effect in OVERALL:
            return []
        if self.effect == "remove" and (select(basis, self.select).root != NOTHING).any():
            return []
        found = problems(basis, self.select)
        if self.effect in ON_DEVICES and not found and not _device_work(basis, self).any():
            return ["no device work is among it."]
        return found

    def __str__(self) -> str:
        chosen = ", ".join(
            f"{name} {'|'.join(value) if isinstance(value, tuple) else value}"
            for name, value in asdict(self.select).items()
            if value != getattr(Selector(), name)
        )
        return f"{self.effect} {self.value:g} of {chosen or 'everything'}"


def _with_caches(basis: Basis, before: Hypothesis, after: Hypothesis) -> Hypothesis:
    """Operators that are left take less the more of their thread's work is gone.

    One operator's durations differ by what others leave in caches: without those it takes as long
    as where it is fastest. But data fits a cache or does not: to spare a part may be enough.
    """
    dag, lanes = basis.dag, len(basis.events.lanes)
    recurring = np.flatnonzero(basis.fastest_ratio < 1.0)  # all else takes what it takes
    own = np.flatnonzero(basis.labelled(*HOST)) if len(recurring) else recurring
    before_ns, after_ns = before.weight_ns[own], after.weight_ns[own]
    spared = np.flatnonzero(after_ns < before_ns)
    if not len(spared):
        return after
    spared_ns = (before_ns - after_ns)[spared]
    gone_ns = np.where(after_ns[spared] == 0, spared_ns, 0.0)
    lane = dag.lane[dag.head[own]]
    all_ns = np.maximum(np.bincount(lane, before_ns, lanes), 1.0)
    gone, part = (np.bincount(lane[spared], one, lanes) / all_ns for one in (gone_ns, spared_ns))
    ratio, lane = basis.fastest_ratio[recurring], dag.lane[dag.head[recurring]]
    left = 1.0 - gone[lane] * (1.0 - ratio)
    fits = (part >= FITS_RATIO)[lane] & basis.memory_bound[recurring]
    weight_ns, cached_ratio = after.weight_ns.copy(), after.cached_ratio.copy()
    weight_ns[recurring] *= left
    cached = np.where(fits, ratio / left, 1.0)
    cached_ratio[recurring] = np.minimum(cached_ratio[recurring], cached)
    return replace(after, weight_ns=weight_ns, cached_ratio=cached_ratio)


def _set_time(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """Each chosen event takes this long: its pieces in proportion, or else the first."""
    selection = select(basis, change.select)
    root, total_ns = _totals(basis, hypothesis, selection)
    ratio = np.divide(change.value, total_ns, out=np.zeros(len(total_ns)), where=total_ns > 0)
    changed = hypothesis.scaled(selection.edges & (root >= 0), ratio[root])
    return _lengthened(changed, root, np.where(total_ns > 0, 0.0, change.value))


def _add_time(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """Longer: the longest piece of each event. Shorter, as far as it can: all in proportion."""
    selection = select(basis, change.select)
    root, total_ns = _totals(basis, hypothesis, selection)
    if change.value >= 0:
        return _lengthened(hypothesis, root, np.full(len(total_ns), change.value))
    rest_ns = np.maximum(total_ns + change.value, 0.0)
    ratio = np.divide(rest_ns, total_ns, out=np.zeros(len(rest_ns)), where=total_ns > 0)
    return hypothesis.scaled(selection.edges & (root >= 0), ratio[root])


def _remove(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """Chosen work is not done: nor launched, called or waited for; the order of the rest stays."""
    gone = removed_with(basis, select(basis, change.select).root != NOTHING)
    device = basis.events.works
    starts = into(basis, gone & device, EdgeKind.LAUNCH, EdgeKind.STREAM)
    changed = hypothesis.scaled(basis.owned_by(gone) | starts, 0.0)
    dag = basis.dag
    uncalled = basis.calls & np.append(gone, False)[dag.event[dag.head]]
    left_ns = np.maximum(changed.weight_ns - basis.call_ns, 0.0)
    ends = np.append(gone & ~device, False)[dag.event] & dag.is_end
    waits = np.isin(dag.kind, WAITS) & ends[dag.head]
    return replace(
        changed,
        weight_ns=np.where(uncalled, left_ns, changed.weight_ns),
        dropped=changed.dropped | waits,
        residual_ns=np.where(ends, 0.0, changed.residual_ns),
    )


def removed_with(basis: Basis, work: Bools) -> Bools:
    """Some events, of device work among them the host calls, and the operators' own time."""
    device = np.flatnonzero(work & basis.events.works)
    gone = np.append(work, False)
    gone[basis.owned.parent[device]] = True
    gone[basis.owned.operator[device]] = True
    return gone[:-1]


def into(basis: Basis, work: Bools, *kinds: EdgeKind) -> Bools:
    """The edges of some kinds that lead to the start of some events, (E,).

    Without those that are other work up to there.
    """
    dag = basis.dag
    begins = np.append(work, False)[dag.event] & ~dag.is_end
    return np.isin(dag.kind, kinds) & begins[dag.head] & ~dag.beside


def _totals(basis: Basis, hypothesis: Hypothesis, selection: Selection) -> tuple[Int64s, Floats]:
    """The chosen event that each edge counts towards, (E,), and the sum of each, (n + 1,)."""
    found = np.append(selection.root, NOTHING)[basis.dag.owner]
    root: Int64s = np.where(selection.edges, found, NOTHING)
    meant = (root >= 0) & ~basis.dag.beside
    size = len(basis.events) + 1
    sums = np.bincount(root[meant], weights=hypothesis.weight_ns[meant], minlength=size)
    return root, sums.astype(np.float64)


def _lengthened(hypothesis: Hypothesis, root: Int64s, more_ns: Floats) -> Hypothesis:
    """Hypothesis with more time on the longest edge of each event; the first of equals.

    And on what lies along that.
    """
    owner, beside = hypothesis.dag.owner, hypothesis.dag.beside
    meant = np.flatnonzero((root >= 0) & ~beside)
    chosen = meant[longest(root[meant], hypothesis.weight_ns[meant])]
    longer_ns = np.zeros(len(more_ns))
    longer_ns[owner[chosen]] = more_ns[root[chosen]]
    weight_ns = hypothesis.weight_ns.copy()
    weight_ns[chosen] += more_ns[root[chosen]]
    along = (root >= 0) & beside
    weight_ns[along] += longer_ns[owner[along]]
    return replace(hypothesis, weight_ns=weight_ns)


def _device_work(basis: Basis, change: Change) -> Bools:
    """The device work that was chosen, itself or in what was chosen, (n,)."""
    within = select(basis, change.select).root != NOTHING
    in_graph = mask(len(basis.events) + 1, basis.dag.event)
    found: Bools = within & basis.events.works
    return found & in_graph[:-1]


def _fuse(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """Chosen device work that follows each other on a stream becomes one, launched as the first.

    It takes as long as they did without the gaps; at best as long as the longest of them.
    """
    work = _device_work(basis, change)
    run = _runs(basis, work)
    firsts = np.unique(run[work], return_index=True)[1]
    later = work.copy()
    later[np.flatnonzero(work)[firsts]] = False
    host = removed_with(basis, later) & ~removed_with(basis, work & ~later) & ~later
    spared = _without_launches(basis, hypothesis, later, host)
    spared = spared.scaled(into(basis, later, EdgeKind.STREAM), 0.0)
    chosen = np.flatnonzero(work)
    chosen = chosen[longest(run[chosen], basis.events.duration_ns[chosen])]  # of each run
    shorter = basis.owned_by(work & ~mask(len(work), chosen))
    best_ratio = np.where(shorter, 0.0, spared.best_ratio)
    note = f"fuse: {work.sum()} pieces of device work become {work.sum() - later.sum()}."
    return replace(spared, best_ratio=best_ratio).noting(note)


def _cuda_graph(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """All device work in each chosen range is launched at once.

    The host's launching takes no time but for the first; kernels have the shortest gap.
    """
    work = _device_work(basis, change)
    root = select(basis, change.select).root
    order = np.flatnonzero(work)
    order = order[np.lexsort((basis.events.start_ns[order], root[order]))]
    later = mask(len(work), order[1:][np.diff(root[order]) == 0])
    kept = np.unique(basis.owned.parent[work & ~later])
    host = np.isin(root, root[work]) & ~basis.events.works
    host[kept[kept >= 0]] = False
    changed = _without_launches(basis, hypothesis, later, host)
    gap_ns = float(basis.dag.facts.get("stream_gap_ns", 0.0))
    inner = into(basis, later, EdgeKind.STREAM)
    weight_ns = np.where(inner, np.minimum(changed.weight_ns, gap_ns), changed.weight_ns)
    note = f"cuda_graph: {int(later.sum())} launches of {int(work.sum())} are spared."
    return replace(changed, weight_ns=weight_ns).noting(note)


def _overlap(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """Chosen device work has a stream of its own; what came before it holds up what comes after."""
    dag, work = basis.dag, np.append(_device_work(basis, change), False)
    leaves, enters = work[dag.event[dag.tail]], work[dag.event[dag.head]]
    order = dag.kind == EdgeKind.STREAM
    before = scattered(len(work), dag.event[dag.head[order & enters]], dag.tail[order & enters])
    passed_on = order | np.isin(dag.kind, (EdgeKind.SYNC, EdgeKind.BOUNDARY))
    passed = np.flatnonzero(passed_on & leaves & ~enters)
    tail = dag.tail[passed].astype(np.int64)
    while (moved := (tail != NOTHING) & work[dag.event[tail]]).any():
        tail[moved] = before[dag.event[tail[moved]]]
    passed, tail = passed[tail != NOTHING], tail[tail != NOTHING]
    gap_ns = hypothesis.weight_ns[passed].astype(np.int64)
    dropped = hypothesis.dropped | order & (leaves | enters)
    known = EdgeKind.STREAM, Class.STREAM_GAP, Tier.SEMANTIC
    added = edges(tail, dag.head[passed], *known, gap_ns)
    return replace(
        hypothesis, dropped=dropped, added=joined(filter(None, (hypothesis.added, added)))
    )


def _runs(basis: Basis, work: Bools) -> Int64s:
    """The number of the run of neighbours on a stream that chosen work is in, (n,)."""
    events, dag = basis.events, basis.dag
    in_graph = mask(len(events) + 1, dag.event)
    order = np.flatnonzero(events.works & in_graph[:-1])
    order = order[np.lexsort((events.start_ns[order], events.lane[order]))]
    follows = (np.diff(events.lane[order]) == 0) & work[order[:-1]] & work[order[1:]]
    run = scattered(len(events), order, np.cumsum(np.insert(~follows, 0, True)[: len(order)]))
    return np.where(work, run, NOTHING)


def _without_launches(basis: Basis, hypothesis: Hypothesis, work: Bools, host: Bools) -> Hypothesis:
    """Some device work is no longer launched, and what the host did for it takes no time."""
    dropped = hypothesis.dropped | into(basis, work, EdgeKind.LAUNCH)
    spared = basis.owned_by(host)
    return replace(hypothesis, dropped=dropped).scaled(spared, 0.0)


def _of_threads(basis: Basis) -> Bools:
    """The edges of threads' own work, in loaders and libraries too; not of their waits, (E,)."""
    within = basis.labelled(Class.DATA_LOADING, Class.NATIVE) & (basis.dag.kind == EdgeKind.CHAIN)
    waits = basis.owned_by(basis.events.called(named_as_wait))
    found: Bools = basis.labelled(*HOST) | within & ~waits
    return found


EFFECTS: Mapping[str, Callable[[Basis, Hypothesis, Change], Hypothesis]] = {
    # All weights in the same proportion; infinitely fast is allowed, and below 1 is slower.
    "speedup": lambda basis, it, by: it.scaled(select(basis, by.select).edges, 1.0 / by.value),
    "set_ns": _set_time,
    "add_ns": _add_time,
    "remove": _remove,
    "fuse": _fuse,
    "cuda_graph": _cuda_graph,
    "overlap": _overlap,
    "host": lambda basis, it, by: it.scaled(_of_threads(basis), 1.0 / by.value),
    "bandwidth": lambda basis, it, by: it.scaled(basis.labelled(Class.GPU_COPY), 1.0 / by.value),
    "launch_latency_ns": lambda basis, it, to: replace(
        it, weight_ns=np.where(basis.dag.kind == EdgeKind.LAUNCH, to.value, it.weight_ns)
    ),
    "residual": lambda _, it, by: replace(it, residual_ns=it.residual_ns * by.value),
}
ON_DEVICES = ("fuse", "cuda_graph", "overlap")
OVERALL = ("host", "launch_latency_ns", "bandwidth", "residual")  # these take no selection
