"""An analysed trace, prepared for any number of what-ifs."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from benchorch.trace.analysis import Analysis
from benchorch.trace.arrays import Bools, Floats, Int64s
from benchorch.trace.attribution.entities import Entities
from benchorch.trace.attribution.nodes import graph_nodes
from benchorch.trace.attribution.owners import EventOwners, owners
from benchorch.trace.causes import reasons
from benchorch.trace.critical_path.disturbance import (
    MOST_TIMES,
    PROCESSOR,
    recording_ns,
    undisturbed,
)
from benchorch.trace.dag import CLASSES, Class, CriticalPath, Dag, EdgeKind
from benchorch.trace.events import NOTHING, Category, Events
from benchorch.trace.nesting import inherited
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trace.operators.operator_kinds import operator_kind

FASTEST, LEAST_CALLS, MOST_SPREAD = (0.1, 0.9), 8, 2.5
"""Quantiles of an operator's durations, how many there have to be, and how far apart these may be
for caches and not other operands to be the reason."""

COMPUTE_BOUND = ("matmul", "convolution", "attention")
"""Kinds of operators that use each value many times: they work from caches in any case."""

PHASES = ("forward", "backward", "optimizer")

WORK = (
    *(Class.GPU_COMPUTE, Class.GPU_COPY, Class.GPU_COMM, Class.HOST_FUNCTION),
    *(*PROCESSOR, Class.SLEEP, Class.LOCK, Class.OUTSIDE),
)
"""Classes selected by default: work, not waiting."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Events that fit everything that is given, with all that they call and launch."""

    # of any event; here and below exact, with wildcards, or ``/a regular expression/``
    name: str = ""
    op: str = ""  # name of an operator, or type of an ONNX node
    kernel: str = ""  # name of device work
    module: str = ""  # qualified name of a module; those inside it are included
    lane: str = ""  # only time on a thread or stream, by its label or number
    graph_node: str = ""  # node of an operator graph, or the number of one in a launched graph
    dtype: str = ""  # and shape: of an operator's inputs, ``float32`` and ``64x128, 128x32``
    shape: str = ""
    phase: str = ""  # only time in one of `PHASES`
    iteration: int | None = None  # only time in one of the window's ranges, from 0
    rank: int | None = None  # only time on lanes of one rank
    classes: tuple[Class, ...] = ()  # only time that is spent on these; by default on any `WORK`
    alone: bool = False  # only an event's own time, not that of what it calls and launches


class Selection(NamedTuple):
    """The result of a selector."""

    chosen: Bools  # (n,) the events that fit
    root: Int64s  # (n,) the outermost of them that each event is part of, NOTHING for none
    edges: Bools  # (E,) the edges whose weight is meant


@final
@dataclass(frozen=True, kw_only=True)
class Basis:
    """An analysed trace of n events, V points and E edges."""

    # of the observed run, without what other programs and the profiler disturbed; and its parts
    analysis: Analysis
    events: Events
    dag: Dag
    graph: OperatorGraph | None
    observed_ns: Int64s  # (E,) the weights with it
    preempted_ratio: float  # share of threads' work in the steps in which others had the processor
    owned: EventOwners  # what each event belongs to
    # the last selection, so that a change and its check select once
    selected: dict[Selector, Selection] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    @cached_property
    def host_ratio(self) -> float:
        """Share of the path on host threads."""
        path = self.analysis.path
        host = np.array([one.value.startswith(("cpu", "data")) for one in CLASSES])[path.label]
        return float(path.duration_ns[host].sum()) / max(path.length_ns, 1)

    @cached_property
    def shares(self) -> dict[str, float]:
        """Shares of the observed path by cause."""
        found = self.analysis.reasons.shares(self.analysis.path)
        return {one.value: share for one, share in found.items()}

    @cached_property
    def named_ns(self) -> Floats:
        """Time of the observed path as `named` has it."""
        return self.named(self.analysis.path)

    def named(self, path: CriticalPath) -> Floats:
        """Time of a period by the name of its owner; the last entry is that of none."""
        unowned = len(self.events.names)
        column = np.where(path.owner >= 0, self.events.name[path.owner], unowned)
        sums = np.bincount(column, path.duration_ns, unowned + 1)
        return sums / self.analysis.steps.shown_count

    @cached_property
    def nodes(self) -> Entities:
        """The nodes of the operator graph that each event did the work of."""
        return graph_nodes(self.events, self.owned, self.graph, self.analysis.provenance)

    @cached_property
    def work(self) -> Bools:
        """The edges whose weight is spent on work, (E,); not to be written to."""
        return self.labelled(*WORK)

    @cached_property
    def work_ns(self) -> int:
        """Their sum, at least 1."""
        return max(int(self.dag.weight_ns[self.work].sum()), 1)

    @cached_property
    def outside(self) -> Bools:
        """The edges whose weight something decides that the trace may not record, (E,)."""
        unrecorded = [Class.OUTSIDE, Class.INPUT_OUTPUT]
        if not self.events.ranks.any():  # who comes last to a collective may be another rank
            unrecorded += [Class.CPU_COMM, Class.GPU_COMM]
        kinds = np.isin(self.dag.kind, (EdgeKind.CHAIN, EdgeKind.WORK))
        return kinds & self.labelled(*unrecorded)

    @cached_property
    def calls(self) -> Bools:
        """The edges on which Python arranges to call an operator, (E,)."""
        operator = np.append(self.events.category == Category.OPERATOR, False)
        dag = self.dag
        starts = operator[dag.event[dag.head]] & ~dag.is_end[dag.head]
        found: Bools = starts & (dag.kind == EdgeKind.CHAIN) & self.labelled(Class.CPU_PYTHON)
        return found

    @cached_property
    def call_ns(self) -> float:
        """Time that Python usually needs to call an operator."""
        return float(np.median(self.dag.weight_ns[self.calls])) if self.calls.any() else 0.0

    @cached_property
    def fastest_ratio(self) -> Floats:
        """Of each weight the part that the same operator takes where it is fastest, (E,).

        1 where an operator differs too much for it to be the same work, or hardly recurs.
        """
        events, dag = self.events, self.dag
        operator = self.owned_by(events.category == Category.OPERATOR)
        edges = np.flatnonzero(operator & self.labelled(Class.CPU_COMPUTE))
        took_ns = np.bincount(dag.owner[edges], dag.weight_ns[edges], len(events))
        these = np.unique(dag.owner[edges])
        these = these[np.lexsort((took_ns[these], events.name[these]))]
        name, first, count = np.unique(events.name[these], return_index=True, return_counts=True)
        low_ns, high_ns = (
            took_ns[these[first + ((count - 1) * one).astype(np.int64)]] for one in FASTEST
        )
        mean_ns = np.add.reduceat(took_ns[these], first) / count if len(first) else low_ns
        same = (count >= LEAST_CALLS) & (high_ns <= MOST_SPREAD * low_ns)
        ratio = np.ones(len(events.names))
        ratio[name[same]] = np.minimum(low_ns[same] / np.maximum(mean_ns[same], 1.0), 1.0)
        found = np.ones(dag.edges)
        found[edges] = ratio[events.name[dag.owner[edges]]]
        return found

    @cached_property
    def memory_bound(self) -> Bools:
        """The edges of operators that may do little with each value that they read, (E,)."""
        bound = self.events.called(lambda name: operator_kind(name) not in COMPUTE_BOUND)
        return self.owned_by(bound & (self.events.category == Category.OPERATOR))

    def within(self, chosen: Bools) -> Int64s:
        """The outermost chosen event that each is, or is part of, (n,); NOTHING for none."""
        parent, own = self.owned.parent, np.arange(len(self.events), dtype=np.int64)
        if not np.append(chosen, False)[parent].any():  # kernels, as a rule
            return np.where(chosen, own, NOTHING)
        nearest = inherited(parent, np.where(chosen, own, NOTHING))
        around = np.where(chosen & (parent != NOTHING), nearest[parent], NOTHING)
        outermost = inherited(around, np.where(chosen & (around == NOTHING), own, NOTHING))
        return np.where(nearest != NOTHING, outermost[nearest], NOTHING)

    def labelled(self, *classes: Class) -> Bools:
        """The edges whose weight is spent on one of some classes, (E,)."""
        return np.array([one in classes for one in CLASSES])[self.dag.label]

    def owned_by(self, chosen: Bools) -> Bools:
        """The edges whose weight belongs to chosen events, (E,)."""
        return np.append(chosen, False)[self.dag.owner]


def prepare(analysis: Analysis | Basis) -> Basis:
    """The basis of any number of what-ifs; one that is prepared already is returned as it is."""
    if isinstance(analysis, Basis):
        return analysis
    events, observed_ns = analysis.events, analysis.dag.weight_ns
    calm_ns, preempted_ratio = undisturbed(events, analysis.dag, analysis.steps)
    weight_ns = calm_ns - _recording_ns(analysis, calm_ns)
    if not np.array_equal(weight_ns, observed_ns):
        periods = analysis.periods.reweighted(weight_ns)
        dag = periods.dag
        path, _, _ = periods.path(dag, weight_ns, dag.residual_ns, None)
        why = reasons(events, path)
        analysis = replace(analysis, dag=dag, periods=periods, path=path, reasons=why)
    return Basis(
        analysis=analysis,
        events=events,
        dag=analysis.dag,
        graph=analysis.graph,
        observed_ns=observed_ns,
        preempted_ratio=preempted_ratio,
        owned=owners(events),
    )


def _recording_ns(analysis: Analysis, weight_ns: Int64s) -> Int64s:
    """What the profiler took of each weight, (E,): what its rows show, more if it took more."""
    cost_ns, path = recording_ns(analysis.events, analysis.dag), analysis.path
    on_path_ns = int(cost_ns[path.edge[~path.residual]].sum())
    slower_ratio = 1.0 - 1.0 / max(analysis.dilation_ratio or 1.0, 1.0)
    times = slower_ratio * path.length_ns / max(on_path_ns, 1)
    taken_ns: Int64s = (cost_ns * np.clip(times, 1.0, MOST_TIMES)).astype(np.int64)
    return np.minimum(taken_ns, weight_ns)
