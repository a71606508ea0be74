"""Changes of how long work takes, and of how it is launched and ordered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Protocol, final

import numpy as np

from benchorch.trace.arrays import Bools, Floats, Int64s, mask, scattered
from benchorch.trace.dag import Class, EdgeKind
from benchorch.trace.events import DEVICE_WORK, NOTHING
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.hypothesis import Hypothesis
from benchorch.trace.whatif.selector import problems, select
from benchorch.trace.whatif.selector_values import Selection, Selector

WAITS = (EdgeKind.SYNC, EdgeKind.WAIT, EdgeKind.JOIN)
HOST = (
    *(Class.CPU_COMPUTE, Class.CPU_FRAMEWORK, Class.CPU_RUNTIME),
    *(Class.CPU_PYTHON, Class.CPU_GAP),
)


class Transform(Protocol):
    """Change of a hypothesis; applied in order."""

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """The hypothesis with the change made."""

    def problems(self, basis: Basis) -> list[str]:
        """Sentences why the change does not apply to this trace; none where it does."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One effect, a key of `EFFECTS`, on chosen work or, where it is a key of `OVERALL`, on all."""

    effect: str
    value: float = 1.0  # ratio or nanoseconds
    select: Selector = field(default_factory=Selector)

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """The hypothesis with the change made."""
        return EFFECTS[self.effect](basis, hypothesis, self)

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
        given = {one.name: getattr(self.select, one.name) for one in fields(Selector)}
        chosen = ", ".join(
            f"{name} {'|'.join(value) if isinstance(value, tuple) else value}"
            for name, value in given.items()
            if value != getattr(Selector(), name)
        )
        return f"{self.effect} {self.value:g} of {chosen or 'everything'}"


def _speedup(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """All weights in the same proportion; infinitely fast is allowed, and below 1 is slower."""
    return hypothesis.scaled(select(basis, change.select).edges, 1.0 / change.value)


def _set_time(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """Each chosen event with all it calls takes this long, its pieces in proportion.

    Events without any time get it on their first piece.
    """
    selection = select(basis, change.select)
    root, total_ns = _totals(basis, hypothesis, selection)
    ratio = np.divide(
        change.value, total_ns[root], out=np.zeros(len(root)), where=total_ns[root] > 0
    )
    changed = hypothesis.scaled(selection.edges & (root >= 0), ratio)
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
    """Chosen work is not done: nor is its launch, nor what its operator does to launch it.

    Nor is an operator called, for which Python needs as long as usually passes before one. The
    order of the rest stays, but nothing waits.
    """
    gone = removed_with(basis, select(basis, change.select).root != NOTHING)
    device = np.isin(basis.events.category, DEVICE_WORK)
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


def _host(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """Everything that threads do is so many times as fast; waits and devices stay."""
    return hypothesis.scaled(basis.labelled(*HOST), 1.0 / change.value)


def _bandwidth(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """Copies and fills of all devices are so many times as fast."""
    return hypothesis.scaled(basis.labelled(Class.GPU_COPY), 1.0 / change.value)


def _launch_latency(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """From each launch to the start of what it launches passes at least this long."""
    launches = basis.dag.kind == EdgeKind.LAUNCH
    return replace(hypothesis, weight_ns=np.where(launches, change.value, hypothesis.weight_ns))


def _residual(_: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """Unexplained time at every point, times a ratio: 1 keeps it, 0 drops it."""
    return replace(hypothesis, residual_ns=hypothesis.residual_ns * change.value)


def removed_with(basis: Basis, work: Bools) -> Bools:
    """Some events, of device work among them the host calls, and the operators' own time."""
    device = np.flatnonzero(work & np.isin(basis.events.category, DEVICE_WORK))
    gone = np.append(work, False)
    gone[basis.owned.parent[device]] = True
    gone[basis.owned.operator[device]] = True
    return gone[:-1]


def into(basis: Basis, work: Bools, *kinds: EdgeKind) -> Bools:
    """The edges of some kinds that lead to the start of some events, (E,)."""
    begins = np.append(work, False)[basis.dag.event] & ~basis.dag.is_end
    found: Bools = np.isin(basis.dag.kind, kinds) & begins[basis.dag.head]
    return found


def _totals(basis: Basis, hypothesis: Hypothesis, selection: Selection) -> tuple[Int64s, Floats]:
    """The chosen event that each edge counts towards, (E,), and the sum of each, (n + 1,)."""
    found = np.append(selection.root, NOTHING)[basis.dag.owner]
    root: Int64s = np.where(selection.edges, found, NOTHING)
    meant = root >= 0
    size = len(basis.events) + 1
    sums = np.bincount(root[meant], weights=hypothesis.weight_ns[meant], minlength=size)
    return root, sums.astype(np.float64)


def _lengthened(hypothesis: Hypothesis, root: Int64s, more_ns: Floats) -> Hypothesis:
    """Hypothesis with more time on the longest edge of each event; the first of equals."""
    meant = np.flatnonzero(root >= 0)
    order = meant[np.lexsort((meant, -hypothesis.weight_ns[meant], root[meant]))]
    longest = order[np.flatnonzero(np.diff(root[order], prepend=NOTHING))]
    weight_ns = hypothesis.weight_ns.copy()
    weight_ns[longest] += more_ns[root[longest]]
    return replace(hypothesis, weight_ns=weight_ns)


def _device_work(basis: Basis, change: Change) -> Bools:
    """The device work that was chosen, itself or in what was chosen, (n,)."""
    within = select(basis, change.select).root != NOTHING
    in_graph = mask(len(basis.events) + 1, basis.dag.event)
    found: Bools = within & np.isin(basis.events.category, DEVICE_WORK)
    return found & in_graph[:-1]


def _fuse(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """Chosen device work that follows each other on a stream becomes one, launched as the first.

    It takes as long as they did without the gaps, as if no memory traffic were saved; at best as
    long as the longest of them, as if all of the others' were.
    """
    work = _device_work(basis, change)
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


def _cuda_graph(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """All device work in each chosen range is launched at once.

    What the host did in the range to launch it piece by piece takes no time, but for the first
    launch; between kernels passes the shortest gap that the trace has.
    """
    work = _device_work(basis, change)
    root = select(basis, change.select).root
    order = np.flatnonzero(work)
    order = order[np.lexsort((basis.events.start_ns[order], root[order]))]
    later = mask(len(work) + 1, order[1:][np.diff(root[order]) == 0])
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


def _overlap(basis: Basis, hypothesis: Hypothesis, change: Change) -> Hypothesis:
    """Chosen device work runs on a stream of its own: only its launch and its data hold it up.

    What came before it on its stream now holds up what came after it, and who waited.
    """
    dag, work = basis.dag, np.append(_device_work(basis, change), False)
    leaves, enters = work[dag.event[dag.tail]], work[dag.event[dag.head]]
    order = dag.kind == EdgeKind.STREAM
    before = scattered(len(work), dag.event[dag.head[order & enters]], dag.tail[order & enters])
    passed_on = order | np.isin(dag.kind, (EdgeKind.SYNC, EdgeKind.BOUNDARY))
    edges = np.flatnonzero(passed_on & leaves & ~enters)
    tail = dag.tail[edges].astype(np.int64)
    while (moved := (tail != NOTHING) & work[dag.event[tail]]).any():
        tail[moved] = before[dag.event[tail[moved]]]
    edges, tail = edges[tail != NOTHING], tail[tail != NOTHING]
    gap_ns = hypothesis.weight_ns[edges].astype(np.int64)
    dropped = hypothesis.dropped | order & (leaves | enters)
    return replace(hypothesis, dropped=dropped).adding(tail, dag.head[edges], gap_ns)


def _runs(basis: Basis, work: Bools) -> Int64s:
    """The number of the run of neighbours on a stream that chosen work is in, (n,)."""
    events, dag = basis.events, basis.dag
    in_graph = mask(len(events) + 1, dag.event)
    order = np.flatnonzero(np.isin(events.category, DEVICE_WORK) & in_graph[:-1])
    order = order[np.lexsort((events.start_ns[order], events.lane[order]))]
    follows = (np.diff(events.lane[order]) == 0) & work[order[:-1]] & work[order[1:]]
    run = scattered(len(events), order, np.cumsum(np.insert(~follows, 0, True)[: len(order)]))
    return np.where(work, run, NOTHING)


def _longest(basis: Basis, work: Bools, run: Int64s) -> Bools:
    """Mask of the longest event of each run, the first of equals, (n,)."""
    chosen = np.flatnonzero(work)
    order = chosen[np.lexsort((-basis.events.duration_ns[chosen], run[chosen]))]
    return mask(len(work), order[np.flatnonzero(np.diff(run[order], prepend=NOTHING))])


def _without_launches(basis: Basis, hypothesis: Hypothesis, work: Bools, host: Bools) -> Hypothesis:
    """Some device work is no longer launched, and what the host did for it takes no time."""
    dropped = hypothesis.dropped | into(basis, work, EdgeKind.LAUNCH)
    spared = basis.owned_by(host)
    return replace(hypothesis, dropped=dropped).scaled(spared, 0.0)


EFFECTS: Mapping[str, Callable[[Basis, Hypothesis, Change], Hypothesis]] = {
    "speedup": _speedup,
    "set_ns": _set_time,
    "add_ns": _add_time,
    "remove": _remove,
    "fuse": _fuse,
    "cuda_graph": _cuda_graph,
    "overlap": _overlap,
    "host": _host,
    "launch_latency_ns": _launch_latency,
    "bandwidth": _bandwidth,
    "residual": _residual,
}
ON_DEVICES = ("fuse", "cuda_graph", "overlap")
OVERALL = ("host", "launch_latency_ns", "bandwidth", "residual")  # these take no selection
