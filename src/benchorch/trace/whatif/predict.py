"""Predicted period and critical path of a run with changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple, final

import numpy as np

from benchorch.errors import TraceError
from benchorch.trace.analysis import Analysis
from benchorch.trace.arrays import Int64s
from benchorch.trace.attribution.entities import measured
from benchorch.trace.attribution.tables import EntityRow, Ledger
from benchorch.trace.causes import reasons
from benchorch.trace.dag import CriticalPath, Dag, Tier
from benchorch.trace.whatif.basis import Basis, prepare
from benchorch.trace.whatif.selector import select
from benchorch.trace.whatif.transforms import (
    OVERALL,
    Change,
    Changed,
    Hypothesis,
    Transform,
    hypothesis_of,
)

NOT_MODELLED = (
    "caches and memory that work shares",
    "kernels that share a device's units and slow each other",
    "clock frequencies that change with the load",
    "the memory allocator",
    "another choice of kernels",
)
"""Effects of a change that a prediction assumes unchanged."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Work whose share of the critical path changes; times of a period."""

    name: str
    before_ns: int
    after_ns: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A replay of the observed run with changes; times are those of one period, in ns."""

    name: str  # of the what-if; `changes` has a sentence for each change
    changes: tuple[str, ...]
    makespan_ns: int  # and predicted_ns: the period observed, and with the changes
    predicted_ns: int
    low_ns: int  # and high_ns: a 90 % interval of it, see `interval`
    high_ns: int
    # causes, predicted_causes: shares of the critical path by cause, before and after
    causes: Mapping[str, float]
    predicted_causes: Mapping[str, float]
    reasons: Mapping[str, int]  # what the interval is made of, in ns
    # what has more or less of the path than before, the largest difference first
    moved: tuple[Moved, ...] = ()
    # of the model, those with a time in the changed run; empty without a model
    nodes: tuple[EntityRow, ...] = ()
    notes: tuple[str, ...] = ()  # remarks of the changes
    not_modelled: tuple[str, ...] = NOT_MODELLED

    @property
    def change_ratio(self) -> float:
        """Relative change of the period; negative if it gets shorter."""
        return self.predicted_ns / self.makespan_ns - 1.0 if self.makespan_ns else 0.0

    @property
    def speedup(self) -> float:
        """The observed period over the predicted one."""
        return self.makespan_ns / self.predicted_ns if self.predicted_ns else float("inf")

    def as_mapping(self) -> dict[str, object]:
        """For ``whatif/<name>.json``, with what follows from it."""
        speedup = self.speedup if self.predicted_ns else None
        return {**asdict(self), "change_ratio": self.change_ratio, "speedup": speedup}


MOST_MOVED, RARE_NAMES = 20, 3
UNNAMED = "(between events)"

MODEL_RATIO = 0.15  # model error as a share of a change: caches, contention and scheduling
NOISE_QUANTILE = 2.5  # standard errors on a side of a 90 % interval of few, correlated steps
LEAST_RATIO = 0.01  # minimum half-width of an interval as a share of the period
PROFILED_RATIO = 0.08  # of the period with host time on the path: the profiler's part varies
OUTSIDE_RATIO = 0.1  # of the path: what is waited for less does not set the pace


def predict(
    analysis: Analysis | Basis, changes: Sequence[Transform], *, name: str = "what-if"
) -> Prediction:
    """The run with the changes made one after another; TraceError with every problem of them."""
    basis = prepare(analysis)
    found = [
        f"{name}, change {number}: {problem}"
        for number, change in enumerate(changes, 1)
        for problem in change.problems(basis)
    ]
    if found:
        raise TraceError("\n".join(found))
    try:
        return _predicted(basis, changes, name)
    except OverflowError as error:
        raise TraceError(f"{name}: its times are too long to be added up.") from error


def _predicted(basis: Basis, changes: Sequence[Transform], name: str) -> Prediction:
    hypothesis = hypothesis_of(basis, changes)
    period_ns = basis.analysis.steps.period_ns
    replay = _replay(basis, hypothesis)
    predicted_ns = replay.period_ns
    random = {
        "model": MODEL_RATIO * abs(predicted_ns - period_ns),
        "steps": NOISE_QUANTILE * replay.error_ns,
        "profiler": basis.host_ratio * PROFILED_RATIO * predicted_ns,
        "least": LEAST_RATIO * predicted_ns,
    }
    # Independent errors add as squares; another reading of the trace is as good as this one.
    half_ns = float(np.sqrt(sum(one**2 for one in random.values())))
    cached_ns = min(0.0, _cached_ns(basis, hypothesis, replay) - predicted_ns)
    below_ns = float(np.hypot(half_ns, cached_ns))
    readings = _readings(basis, changes, hypothesis, replay)
    off_ns = {reason: other_ns - predicted_ns for reason, other_ns in readings}
    sides_ns = 0.0, *off_ns.values()
    why_ns = {**random, **({"caches": cached_ns} if cached_ns else {}), **off_ns}
    return Prediction(
        name=name,
        changes=tuple(map(str, changes)),
        makespan_ns=period_ns,
        predicted_ns=round(predicted_ns),
        low_ns=max(0, round(predicted_ns - below_ns + min(sides_ns))),
        high_ns=round(predicted_ns + half_ns + max(sides_ns)),
        causes=basis.shares,
        predicted_causes=_shares(basis, replay.path),
        reasons={reason: round(abs(error_ns)) for reason, error_ns in why_ns.items()},
        moved=_moved(basis, replay),
        nodes=_nodes(basis, replay),
        notes=(*hypothesis.notes, *_remarks(basis, changes)),
    )


def _remarks(basis: Basis, changes: Sequence[Transform]) -> Iterator[str]:
    """On disturbed work; on changes that select almost nothing: a pattern may mean other work."""
    if basis.preempted_ratio >= LEAST_RATIO * 10:
        yield (
            f"other programs had the processor for about {basis.preempted_ratio:.0%} of the time "
            "in which threads of the steps worked: work counts as long as where it was undisturbed"
        )
    weight_ns, events = basis.dag.weight_ns, basis.events
    for number, change in enumerate(changes, 1):
        if isinstance(change, Change) and change.effect not in OVERALL:
            selection = select(basis, change.select)
            share = int(weight_ns[selection.edges].sum()) / basis.work_ns
            if share < LEAST_RATIO:
                codes = np.unique(events.name[selection.chosen])[:RARE_NAMES].tolist()
                named = ", ".join(events.names[code] for code in codes)
                yield f"change {number} selects {share:.2%} of all work: {named}"


class _Replayed(NamedTuple):
    dag: Dag
    period_ns: float
    recorded_ns: float  # the same of so few steps as were recorded
    error_ns: float
    path: CriticalPath
    elapsed_ns: Int64s
    changed: Changed


def _replay(basis: Basis, hypothesis: Hypothesis) -> _Replayed:
    """The period of a hypothesis, and the path of the interval that is shown."""
    periods = basis.analysis.periods
    dag, changed = hypothesis.rewired()
    path, elapsed_ns, graph = periods.path(dag, *changed)
    weight_ns, _, dropped = changed
    held_ns = weight_ns if dropped is None else np.where(dropped, 0, weight_ns)
    period_ns, error_ns = periods.period_ns(periods.of(elapsed_ns, graph))
    least_ns = periods.least_ns(weight_ns) if dag is basis.dag else 0.0
    changed_dag = replace(dag, weight_ns=held_ns)
    steady_ns = max(period_ns, least_ns)
    return _Replayed(changed_dag, steady_ns, period_ns, error_ns, path, elapsed_ns, changed)


def _cached_ns(basis: Basis, hypothesis: Hypothesis, replay: _Replayed) -> float:
    """The period if what remains takes as long as where it is fastest: its data fits a cache."""
    if hypothesis.added is not None or not (hypothesis.cached_ratio != 1.0).any():
        return replay.period_ns
    _, residual_ns, dropped = replay.changed
    cached_ns = np.rint(hypothesis.weight_ns * hypothesis.cached_ratio).astype(np.int64)
    return basis.analysis.periods.replayed(cached_ns, residual_ns, dropped)


def _readings(
    basis: Basis, changes: Sequence[Transform], hypothesis: Hypothesis, replay: _Replayed
) -> Iterator[tuple[str, float]]:
    """The period as other readings of the trace would have it, each with its reason.

    As a rule that is the observed one, times the ratio of two replays of the same reading.
    """
    dag, periods = basis.dag, basis.analysis.periods
    period_ns = float(basis.analysis.steps.period_ns)
    weight_ns, residual_ns, dropped = replay.changed

    def relative(reading: str, before: Changed, after: Changed) -> tuple[str, float]:
        if reading not in periods.known:
            periods.known[reading] = periods.replayed(*before)
        if not periods.known[reading]:
            return reading, period_ns
        replayed_ns = periods.replayed(*after, guess_ns=replay.elapsed_ns)
        return reading, period_ns * replayed_ns / periods.known[reading]

    if replay.recorded_ns < replay.period_ns:
        yield "what waits in queues", replay.recorded_ns
    if hypothesis.added is not None:
        return
    if dag.residual_ns.any():
        nothing = np.zeros_like(dag.residual_ns)
        before, after = (dag.weight_ns, nothing, None), (weight_ns, nothing, dropped)
        yield relative("unexplained time", before, after)
    inferred = dag.tier == Tier.INFERRED
    if inferred.any():
        without = inferred if dropped is None else inferred | dropped
        before = dag.weight_ns, dag.residual_ns, inferred
        yield relative("inferred dependencies", before, (weight_ns, residual_ns, without))
    outside = basis.outside & (weight_ns == dag.weight_ns)
    path = basis.analysis.path
    waited_ns = int(path.duration_ns[outside[path.edge] & ~path.residual].sum())
    if waited_ns >= OUTSIDE_RATIO * path.length_ns and outside.any():
        # What is not recorded may go on meanwhile: then the wait for it takes up the change.
        gone_ns = periods.replayed(np.where(outside, 0, weight_ns), residual_ns, dropped)
        yield "waits outside", max(period_ns, gone_ns)
    if (hypothesis.best_ratio != 1.0).any():
        best_ns = np.rint(hypothesis.weight_ns * hypothesis.best_ratio).astype(np.int64)
        yield "at best", periods.replayed(best_ns, residual_ns, dropped)
    if basis.observed_ns is not dag.weight_ns:  # each event's time is its own, disturbed or not
        disturbed = hypothesis_of(basis, changes, basis.observed_ns).rewired()[1]
        reading = "other programs" if basis.preempted_ratio else "recording"
        yield relative(reading, (basis.observed_ns, dag.residual_ns, None), disturbed)


def _shares(basis: Basis, path: CriticalPath) -> dict[str, float]:
    """Shares of a path by cause; none where it leads along dependencies that were added."""
    analysis = basis.analysis
    if path.edge.max(initial=-1) >= analysis.dag.edges:
        return {}
    found = reasons(analysis.events, path).shares(path)
    return {one.value: share for one, share in found.items()}


def _nodes(basis: Basis, replay: _Replayed) -> tuple[EntityRow, ...]:
    analysis = basis.analysis
    if not analysis.matched_ratio:
        return ()
    interval_ns = analysis.periods.interval_ns
    times = measured(replay.dag, replay.path, interval_ns, len(basis.events))
    return Ledger(analysis.periods, times).table(basis.nodes, replayed=0)[:-1]


def _moved(basis: Basis, replay: _Replayed) -> tuple[Moved, ...]:
    before, after = basis.named_ns, basis.named(replay.path)
    names = (*basis.events.names, UNNAMED)
    order = np.argsort(-np.abs(after - before), kind="stable")[:MOST_MOVED].tolist()
    return tuple(
        Moved(name=names[code], before_ns=round(before[code]), after_ns=round(after[code]))
        for code in order
        if round(after[code]) != round(before[code])
    )
