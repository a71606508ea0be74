"""Changes of how long work takes, and of how it is launched."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import final

import numpy as np

from benchorch.trace.arrays import Bools, Floats, Int64s
from benchorch.trace.dag import EdgeKind
from benchorch.trace.events import DEVICE_WORK, NOTHING
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.hypothesis import Hypothesis
from benchorch.trace.whatif.selector import problems, select
from benchorch.trace.whatif.selector_values import Selection, Selector

WAITS = (EdgeKind.SYNC, EdgeKind.WAIT, EdgeKind.JOIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform(ABC):
    """Change of a hypothesis; applied in order."""

    @abstractmethod
    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """The hypothesis with the change made."""

    @abstractmethod
    def problems(self, basis: Basis) -> list[str]:
        """Sentences why the change does not apply to this trace; none where it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSelection(Transform):
    """A change of chosen work."""

    select: Selector = field(default_factory=Selector)

    def problems(self, basis: Basis) -> list[str]:
        """A selector that finds nothing."""
        return problems(basis, self.select)

    def __str__(self) -> str:
        return f"{type(self).__name__}({_given(self)})"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup(OnSelection):
    """Chosen work takes a part of its time; infinitely fast is allowed, and below 1 is slower."""

    speedup: float

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """All its weights in the same proportion."""
        return hypothesis.scaled(select(basis, self.select).edges, 1.0 / self.speedup)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SetTime(OnSelection):
    """Each chosen event with all it calls takes this long, its pieces in proportion."""

    set_ns: float

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """Events without any time get it on their first piece."""
        selection = select(basis, self.select)
        root, total_ns = _totals(basis, hypothesis, selection)
        ratio = np.divide(
            self.set_ns, total_ns[root], out=np.zeros(len(root)), where=total_ns[root] > 0
        )
        changed = hypothesis.scaled(selection.edges & (root >= 0), ratio)
        return _lengthened(changed, root, np.where(total_ns > 0, 0.0, self.set_ns))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AddTime(OnSelection):
    """Each chosen event takes this much longer, or shorter as far as it can."""

    add_ns: float

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """Longer: its longest piece. Shorter: all pieces in proportion."""
        selection = select(basis, self.select)
        root, total_ns = _totals(basis, hypothesis, selection)
        if self.add_ns >= 0:
            return _lengthened(hypothesis, root, np.full(len(total_ns), self.add_ns))
        rest_ns = np.maximum(total_ns + self.add_ns, 0.0)
        ratio = np.divide(rest_ns, total_ns, out=np.zeros(len(rest_ns)), where=total_ns > 0)
        return hypothesis.scaled(selection.edges & (root >= 0), ratio[root])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Remove(OnSelection):
    """Chosen work is not done: nor is its launch, nor what its operator does to launch it."""

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """Set the selected weights to 0; the order of the rest stays, but nothing waits."""
        gone = _removed_with(basis, select(basis, self.select).root != NOTHING)
        device = np.isin(basis.events.category, DEVICE_WORK)
        starts = _into(basis, gone & device, EdgeKind.LAUNCH, EdgeKind.STREAM)
        changed = hypothesis.scaled(basis.owned_by(gone) | starts, 0.0)
        dag = basis.dag
        ends = np.append(gone & ~device, False)[dag.event] & dag.is_end
        waits = np.isin(dag.kind, WAITS) & ends[dag.head]
        return replace(
            changed,
            dropped=changed.dropped | waits,
            residual_ns=np.where(ends, 0.0, changed.residual_ns),
        )

    def problems(self, basis: Basis) -> list[str]:
        """A selector that finds no event at all."""
        if (select(basis, self.select).root != NOTHING).any():
            return []
        return problems(basis, self.select)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CudaGraph(OnSelection):
    """All device work in each chosen range is launched at once.

    What the host did in the range to launch it piece by piece takes no time, but for the first
    launch; between kernels passes the shortest gap that the trace has.
    """

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """Launches after the first of each range are not waited for."""
        work, root = self._work(basis), select(basis, self.select).root
        order = np.flatnonzero(work)
        order = order[np.lexsort((basis.events.start_ns[order], root[order]))]
        later = np.zeros(len(work), dtype=np.bool_)
        later[order[1:][np.diff(root[order]) == 0]] = True
        kept = np.unique(basis.owned.parent[work & ~later])
        host = np.isin(root, np.unique(root[work]))
        host &= ~np.isin(basis.events.category, DEVICE_WORK)
        host[kept[kept >= 0]] = False
        changed = hypothesis.scaled(basis.owned_by(host), 0.0)
        dropped = changed.dropped | _into(basis, later, EdgeKind.LAUNCH)
        gap_ns = float(basis.dag.facts.get("stream_gap_ns", 0.0))
        inner = _into(basis, later, EdgeKind.STREAM)
        weight_ns = np.where(inner, np.minimum(changed.weight_ns, gap_ns), changed.weight_ns)
        note = f"cuda_graph: {int(later.sum())} launches of {int(work.sum())} are spared."
        return replace(changed, dropped=dropped, weight_ns=weight_ns).noting(note)

    def problems(self, basis: Basis) -> list[str]:
        """A selection without work, or without work of a device."""
        found = problems(basis, self.select)
        return found or ([] if self._work(basis).any() else ["no device work is among it."])

    def _work(self, basis: Basis) -> Bools:
        """The device work that was chosen, itself or in what was chosen, (n,)."""
        within = select(basis, self.select).root != NOTHING
        in_graph = np.zeros(len(basis.events) + 1, dtype=np.bool_)
        in_graph[basis.dag.event] = True
        found: Bools = within & np.isin(basis.events.category, DEVICE_WORK)
        return found & in_graph[:-1]


def _given(value: OnSelection | Selector) -> str:
    """The attributes that differ from their defaults, in words."""
    listed = []
    for one in fields(value):
        setting = getattr(value, one.name)
        if isinstance(setting, Selector):
            listed.append(_given(setting) or "everything")
        elif setting != one.default:
            listed.append(f"{one.name} {setting}")
    return ", ".join(listed)


def _removed_with(basis: Basis, work: Bools) -> Bools:
    """Some events, of device work among them the host calls, and the operators' own time."""
    device = np.flatnonzero(work & np.isin(basis.events.category, DEVICE_WORK))
    gone = np.append(work, False)
    gone[basis.owned.parent[device]] = True
    gone[basis.owned.operator[device]] = True
    return gone[:-1]


def _into(basis: Basis, work: Bools, *kinds: EdgeKind) -> Bools:
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
