"""Periods of a replay: how long each step would take with other weights."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import final

import numpy as np

from benchorch.trace.arrays import Bools, Int64s, mask
from benchorch.trace.critical_path.path import path_along
from benchorch.trace.critical_path.replay import Contracted, contract
from benchorch.trace.critical_path.replay import steps as edge_steps
from benchorch.trace.dag import NOBODY, CriticalPath, Dag, EdgeKind
from benchorch.trace.events import Events
from benchorch.trace.graph.time_classes import PAUSE_NS
from benchorch.trace.steps import Steps, typical, whole_cycles, work_of_steps

SETTLED_RATIO = 1 / 3  # of the steps: those may depend on how the run began ...
MANY = 6  # ... where there are at least so many.
ALONE_RATIO = 0.02  # standard error of a single step, as a share of it
_PUT = re.compile(r"^queue\.py\(\d+\): put$")


def _milestones(
    events: Events, dag: Dag, steps: Steps
) -> tuple[Int64s, tuple[Int64s, ...], Int64s]:
    """The points at which the steps to analyse begin and end, as `Periods` has them."""
    none = np.zeros(0, dtype=np.int64)
    if steps.lane < 0:
        return none, (np.array([dag.points - 1]),), np.zeros(1, dtype=np.int64)
    host = np.flatnonzero(dag.lane == steps.lane)
    if not len(host):
        host = np.array([0, dag.points - 1])
    host_ns = dag.time_ns[host]
    devices = _device_ends(events, dag, steps)

    def ends(step: int) -> Int64s:
        at = max(int(np.searchsorted(host_ns, steps.end_ns[step], side="right")) - 1, 0)
        return np.append(host[at], devices[devices[:, step] != NOBODY, step])

    starts = np.searchsorted(host_ns, steps.start_ns[steps.first : steps.end])
    before = ends(steps.first - 1) if steps.back_to_back and steps.first > 0 else none
    every = tuple(ends(step) for step in range(steps.first, steps.end))
    return before, every, host[np.minimum(starts, len(host) - 1)]


def _device_ends(events: Events, dag: Dag, steps: Steps) -> Int64s:
    """The end of the last work of each step on each stream, (streams, m), NOBODY without any."""
    work, step = work_of_steps(events, steps)
    finish = np.full(len(events) + 1, NOBODY, dtype=np.int64)
    ended = np.flatnonzero(dag.is_end)
    finish[dag.event[ended]] = ended
    lanes, lane = np.unique(events.lane[work], return_inverse=True)
    found = np.full((len(lanes), len(steps.start_ns)), NOBODY, dtype=np.int64)
    order = np.argsort(finish[work], kind="stable")  # of several the last one stays
    found[lane[order], step[order]] = finish[work[order]]
    return found


@final
@dataclass(frozen=True, kw_only=True)
class Periods:
    """Replays of one graph, of which the periods count."""

    dag: Dag  # the graph
    steps: Steps  # the steps
    before: Int64s  # points that the step before the first one ends with; none where there is none
    ends: tuple[Int64s, ...]  # of each step the points of which the last one ends it
    starts: Int64s  # of each step the point where its range starts
    graph: Contracted  # the contracted graph
    # of each stream, and of each thread that fills a queue, the edges of its work, and in what time
    streams: tuple[tuple[Int64s, int], ...]
    # periods of other readings of the run as it was, by name
    known: dict[str, float] = field(init=False, repr=False, compare=False, default_factory=dict)

    @cached_property
    def observed_ns(self) -> Int64s:
        """Periods as observed, (k,): those that the graph's own weights give."""
        return self.of(self.graph.elapsed(self.graph.lengths(edge_steps(self.dag))))

    def of(self, elapsed_ns: Int64s, graph: Contracted | None = None) -> Int64s:
        """The periods, (k,) in ns, of a replay's times of branch nodes."""
        within = graph or self.graph
        points = np.concatenate(self.ends)
        begins = np.cumsum([0, *map(len, self.ends[:-1])])
        done = np.maximum.reduceat(elapsed_ns[within.numbers(points)], begins)
        starts = elapsed_ns[within.numbers(self.starts)]
        if not self.steps.back_to_back:
            return done - starts
        before = elapsed_ns[within.numbers(self.before)]
        first = before.max() if len(before) else starts[0]
        return np.diff(np.maximum.accumulate(np.append(first, done)))

    @property
    def kept(self) -> Int64s:
        """All points at which steps begin and end."""
        return np.concatenate([self.before, *self.ends, self.starts])

    @property
    def begin(self) -> Int64s:
        """The points of which the last one begins the interval whose path is shown."""
        if self.steps.back_to_back and len(self.before):
            return self.before
        first = self.steps.shown[0] - self.steps.first
        return self.starts[first : first + 1]

    @property
    def end(self) -> Int64s:
        """The points of which the last one ends it."""
        return self.ends[self.steps.shown[1] - self.steps.first]

    @property
    def interval_ns(self) -> tuple[int, int]:
        """Begin and end of that interval, on the trace's clock."""
        time_ns = self.dag.time_ns
        return int(time_ns[self.begin].max()), int(time_ns[self.end].max())

    def period_ns(self, periods_ns: Int64s) -> tuple[float, float]:
        """Steady period of a replay's periods, and its standard error, in ns.

        The observed one times the ratio of sums over typical steps; of many, not the first ones:
        a changed run may need to settle. The error is that of a ratio estimator.
        """
        observed_ns, changed_ns = self.observed_ns, periods_ns
        bursts = self.steps.back_to_back and not typical(observed_ns).any()
        if bursts:
            cycles = whole_cycles(observed_ns)
            observed_ns, changed_ns = observed_ns[cycles], changed_ns[cycles]
        elif len(observed_ns) >= MANY and self.steps.back_to_back:
            settled = _settled(self.steps)
            observed_ns, changed_ns = observed_ns[settled:], changed_ns[settled:]
        chosen = typical(observed_ns, self.steps.back_to_back)
        if bursts or not chosen.any():
            chosen = np.ones(len(observed_ns), dtype=np.bool_)
        elif self.steps.back_to_back and len(changed_ns) >= MANY:
            usual = chosen & typical(changed_ns)  # an accident need not be one in both
            chosen = usual if usual.any() else chosen
        before, after = observed_ns[chosen].astype(np.float64), changed_ns[chosen]
        whole_ns, count = before.sum(), len(before)
        if not whole_ns:
            return float(self.steps.period_ns), 0.0
        ratio = float(after.sum() / whole_ns)
        off_ns = np.sqrt(np.sum((after - ratio * before) ** 2) * count / max(count - 1, 1))
        error = ALONE_RATIO if count == 1 else float(off_ns / whole_ns)
        return self.steps.period_ns * ratio, self.steps.period_ns * error

    def replayed(
        self,
        weight_ns: Int64s | None = None,
        residual_ns: Int64s | None = None,
        dropped: Bools | None = None,
        guess_ns: Int64s | None = None,
    ) -> float:
        """The steady period with other weights, in ns; `guess_ns` as of `Contracted.elapsed`."""
        length_ns = self.graph.lengths(edge_steps(self.dag, weight_ns, residual_ns, dropped))
        period_ns, _ = self.period_ns(self.of(self.graph.elapsed(length_ns, guess_ns)))
        return max(period_ns, self.least_ns(self.dag.weight_ns if weight_ns is None else weight_ns))

    def least_ns(self, weight_ns: Int64s) -> float:
        """The busiest one's work in a period, in ns: few steps let it be ahead of the others."""
        if not self.steps.back_to_back:
            return 0.0
        shares = (float(weight_ns[edges].sum()) / max(ns, 1) for edges, ns in self.streams)
        return max(shares, default=0.0) * self.steps.period_ns

    def path(
        self, dag: Dag, weight_ns: Int64s, residual_ns: Int64s, dropped: Bools | None
    ) -> tuple[CriticalPath, Int64s, Contracted]:
        """The path of the interval shown in a replay, the times of branch nodes, their graph."""
        graph = self.graph if dag is self.dag else contract(dag, self.kept)
        length_ns = graph.lengths(edge_steps(dag, weight_ns, residual_ns, dropped))
        elapsed_ns = graph.elapsed(length_ns)
        ends = graph.numbers(self.end)
        end = int(ends[np.argmax(elapsed_ns[ends])])
        edges = graph.path_edges(length_ns, elapsed_ns, end)
        # A dropped edge that is left on the path stays for the order alone.
        held_ns = weight_ns if dropped is None else np.where(dropped, 0, weight_ns)
        begin_ns = int(dag.time_ns[0] + elapsed_ns[graph.numbers(self.begin)].max())
        path = path_along(dag, edges, held_ns, residual_ns)
        return path.since(begin_ns), elapsed_ns, graph

    def reweighted(self, weight_ns: Int64s) -> "Periods":
        """The same steps as if the run had had other weights."""
        return replace(self, dag=replace(self.dag, weight_ns=weight_ns))


def periods_of(events: Events, dag: Dag, steps: Steps) -> Periods:
    """Everything that replays of one graph share."""
    before, ends, starts = _milestones(events, dag, steps)
    return Periods(
        dag=dag,
        steps=steps,
        before=before,
        ends=ends,
        starts=starts,
        graph=contract(dag, np.concatenate([before, *ends, starts])),
        streams=tuple(_work_by_stream(events, dag, steps)),
    )


def _settled(steps: Steps) -> int:
    """How many of the first steps to analyse may depend on how the run began."""
    return int(len(steps) * SETTLED_RATIO) if len(steps) >= MANY else 0


def _work_by_stream(events: Events, dag: Dag, steps: Steps) -> Iterator[tuple[Int64s, int]]:
    work, step = work_of_steps(events, steps)
    first = steps.first + _settled(steps)
    first_ns = steps.begin_ns[first]
    chosen = mask(len(events) + 1, work[(step >= first) & (step < steps.end)])
    works = np.flatnonzero((dag.kind == EdgeKind.WORK) & chosen[dag.event[dag.head]])
    lane = dag.lane[dag.head[works]]
    for one in np.unique(lane):
        mine = works[lane == one]  # what overlaps itself takes longer in sum than it lasted
        lasted_ns = int(steps.periods_ns[_settled(steps) :].sum())
        yield mine, max(lasted_ns, int(dag.weight_ns[mine].sum()))
    # Who waits until there is room in a queue provides what the steps take from it.
    puts = np.flatnonzero(events.called(_PUT.search) & (events.duration_ns > PAUSE_NS))
    chain = np.flatnonzero(dag.kind == EdgeKind.CHAIN) if len(puts) else puts
    for one in np.unique(events.lane[puts]):
        ends_ns = events.end_ns[puts[events.lane[puts] == one]]
        ends_ns = ends_ns[(ends_ns > first_ns) & (ends_ns <= steps.done_ns[steps.end - 1])]
        if len(ends_ns) >= MANY:
            inside = dag.time_ns[dag.tail[chain]] >= ends_ns.min()
            inside &= dag.time_ns[dag.head[chain]] <= ends_ns.max()
            inside &= dag.lane[dag.head[chain]] == one
            yield chain[inside], int(np.ptp(ends_ns))
