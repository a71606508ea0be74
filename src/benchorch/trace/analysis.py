"""Analysis of a trace file: events, steps, graph, critical path, tables and verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from benchorch.errors import TraceError
from benchorch.pages.markup import shortened
from benchorch.trace.attribution import entities
from benchorch.trace.attribution.entities import OwnerTimes, measured
from benchorch.trace.attribution.nodes import NO_WORK, graph_nodes
from benchorch.trace.attribution.owners import owners
from benchorch.trace.attribution.tables import EntityRow, Ledger, with_shapes
from benchorch.trace.breakdown import DeviceShare, breakdown
from benchorch.trace.causes import CAUSE_CODES, CAUSES, Cause, Known, Reasons, reasons
from benchorch.trace.critical_path.path import critical_path
from benchorch.trace.critical_path.periods import Periods, periods_of
from benchorch.trace.dag import CLASSES, CriticalPath, Dag, Window
from benchorch.trace.events import GRAPH_LAUNCH, NOTHING, Category, Events
from benchorch.trace.graph.build import build_dag
from benchorch.trace.operators.branches import Branch, branches
from benchorch.trace.operators.graph import OperatorGraph, plain_op
from benchorch.trace.operators.provenance import Provenance, is_fused
from benchorch.trace.ranks import last_ranks, meetings, merged, ranks_named
from benchorch.trace.readers.open import read_events
from benchorch.trace.steps import Steps, find_steps, typical, whole
from benchorch.trace.unrecorded import unrecorded
from benchorch.trace.verdict import SLOWED_DILATION, ProgramVerdict, VerdictInputs, verdict

GAINS = 5  # causes whose gain is replayed: those with the largest shares
_FILES_NAMED = 8


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Analysis of the steps of a trace; times are integer nanoseconds."""

    events: Events  # of the whole trace
    steps: Steps  # what is analysed
    dag: Dag  # of the trace from its beginning to the end of the last step
    path: CriticalPath  # of the interval that is shown, whose length it has
    reasons: Reasons  # of the path's segments
    periods: Periods  # replays of the graph
    verdict: ProgramVerdict  # what limits it
    # rows by the table's name, the most time on the path first
    tables: Mapping[str, tuple[EntityRow, ...]]
    devices: tuple[DeviceShare, ...]  # how each device spent each step
    warnings: tuple[str, ...]  # sentences that belong on every page made of this
    repairs: Mapping[str, int]  # what had to be mended, each with how often
    # of the model, where one is known; `provenance` of its compiled kernels, the share of its nodes
    # that the trace was joined to, and ways between its forks and joins
    graph: OperatorGraph | None = None
    provenance: Sequence[Provenance] = ()
    matched_ratio: float | None = None
    branches: tuple[Branch, ...] = ()
    # profiled over unprofiled latency; None where it was not measured
    dilation_ratio: float | None = None

    @property
    def classes(self) -> Mapping[str, int]:
        """Path time by class, the largest first; it sums to the path."""
        sums = np.bincount(self.path.label, self.path.duration_ns, len(CLASSES)).astype(np.int64)
        order = np.argsort(-sums, kind="stable").tolist()
        return {CLASSES[code].value: int(sums[code]) for code in order if sums[code]}


def analyze(
    traces: Events | Path | Sequence[Path],
    *,
    range_name: str | None = None,
    iteration: int | None = None,
    graph: OperatorGraph | None = None,
    dilation_ratio: float | None = None,
    provenance: Sequence[Provenance] = (),
) -> Analysis:
    """Analyse the steady steps of a trace, or of the traces of one program's ranks.

    `range_name` marks steps instead of what profilers usually write; `iteration`, from 0, is the
    one step to analyse; `graph` is that of the model; `dilation_ratio` is profiled over unprofiled
    latency; `provenance` is of each compiled graph, in the order of compilation.
    TraceError: the file is no trace, or has no such range or step.
    """
    if isinstance(traces, Events):
        events, place, notes = traces, "", []
    else:
        files = [traces] if isinstance(traces, Path) else traces
        several = [read_events(file) for file in files]
        events, place, notes = merged(several), f"{files[0]}: ", _ranks_given(files, several)
    try:
        steps = find_steps(events, range_name, iteration)
    except TraceError as error:
        raise TraceError(f"{place}{error}") from None
    periods = periods_of(events, build_dag(events, window_of(events, steps)), steps)
    if steps.lane >= 0 and periods.interval_ns[0] >= periods.interval_ns[1]:
        steps = whole(
            events, f"The clocks of the trace contradict the order of {shortened(steps.name)!r}."
        )
        periods = periods_of(events, build_dag(events, window_of(events, steps)), steps)
    dag, interval_ns = periods.dag, periods.interval_ns
    path = critical_path(dag, int(periods.end[np.argmax(dag.time_ns[periods.end])]), interval_ns[0])
    collectives = meetings(events)
    path = path.cut_at(np.concatenate([collectives.usual_ns, collectives.last_ns, steps.done_ns]))
    why = reasons(events, path)
    times = measured(dag, path, interval_ns, len(events))
    ledger = Ledger(periods, times)
    by_node = graph_nodes(events, owners(events), graph, provenance)
    tables = _tables(events, ledger, by_node)
    node_ns = {row.name: row.total_ns for row in tables.get("graph nodes", ())}
    matched = _matched(graph, node_ns)
    return Analysis(
        events=events,
        steps=steps,
        dag=dag,
        path=path,
        reasons=why,
        periods=periods,
        verdict=_verdict(events, path, why, periods, tables, times, dilation_ratio),
        tables=tables,
        devices=breakdown(events, steps),
        warnings=(*notes, *_warnings(events, steps, matched, dilation_ratio)),
        repairs={**events.repairs, **dag.repairs},
        graph=graph,
        provenance=provenance,
        matched_ratio=matched,
        branches=branches(graph, node_ns) if graph and matched else (),
        dilation_ratio=dilation_ratio,
    )


def _ranks_given(files: Sequence[Path], several: Sequence[Events]) -> list[str]:
    """A sentence on which rank each of several files is, where they do not name it themselves."""
    if len(files) == 1 or ranks_named(several):
        return []
    given = [f"{rank} is {file}" for rank, file in enumerate(files[:_FILES_NAMED])]
    more = [f"and {len(files) - _FILES_NAMED} more"] if len(files) > _FILES_NAMED else []
    listed = ", ".join([*given, *more])
    return [f"The traces name no ranks of their own, so they count as given: {listed}."]


def window_of(events: Events, steps: Steps) -> Window:
    """From the beginning of the trace to the end of the last step to analyse."""
    counted = events.category != Category.OVERHEAD
    first_ns = events.start_ns[counted].min(initial=int(steps.start_ns[steps.first]))
    last = steps.end - 1
    return Window(
        start_ns=int(first_ns),
        end_ns=int(steps.done_ns[last]),
        host_end_ns=int(steps.end_ns[last]),
        lane=steps.lane,
        marks=steps.marks,
    )


def _tables(
    events: Events, ledger: Ledger, by_node: entities.Entities
) -> dict[str, tuple[EntityRow, ...]]:
    owned = owners(events)
    of = {
        "ranges": entities.ranges(events, owned, ledger.periods.steps.marks),
        "operators": entities.operators(events, owned),
        "kernels": entities.kernels(events, owned),
        "modules": entities.modules(events, owned),
        "python": entities.frames(events, owned),
        "graph nodes": by_node,
    }
    found = {name: rows for name, each in of.items() if (rows := ledger.table(each))}
    for name in ("operators", "graph nodes"):
        if name in found:
            found[name] = with_shapes(events, found[name])
    return found


def _verdict(
    events: Events,
    path: CriticalPath,
    why: Reasons,
    periods: Periods,
    tables: Mapping[str, tuple[EntityRow, ...]],
    times: OwnerTimes,
    dilation_ratio: float | None,
) -> ProgramVerdict:
    shares = why.shares(path, _typical(path, periods))
    named = ("operators", "kernels", "python")
    rows = [row for name in named for row in tables.get(name, ())[:-1]]
    most_ns = max((row.gain_ns or 0 for row in rows), default=0)
    # A range says less than what it holds, unless it holds what is in no other table.
    rows += [row for row in tables.get("ranges", ())[:-1] if (row.gain_ns or 0) > 2 * most_ns]
    host = np.array([not lane.on_device for lane in events.lanes] or [False])
    in_window = times.in_window[:-1]
    threads = np.unique(events.lane[in_window & host[events.lane]])
    collective = Cause.COMMUNICATION in shares or Cause.STRAGGLER in shares
    return verdict(
        VerdictInputs(
            steps=periods.steps,
            shares=shares,
            gains=_gains(periods, list(shares)[:GAINS]),
            length=_by_knowledge(path, why.length),
            cause=_by_knowledge(path, why.certainty),
            rows=rows,
            device=bool(events.works.any()),
            stacks=bool((events.category == Category.PYTHON).any()),
            shapes=any(row.shapes for row in rows),
            threads=len(threads) > 1,
            syncs=bool((events.category == Category.SYNC).any()),
            ranks=collective and not events.ranks.any(),
            pytorch=events.pytorch,
            tried=_tried(events, in_window),
            unknown=_unknown(events, path, why),
            unrecorded=unrecorded(events, periods.steps),
            dilation_ratio=dilation_ratio,
        )
    )


def _unknown(events: Events, path: CriticalPath, why: Reasons) -> str:
    """The range in which most time of an unknown cause lies, if one has most of it."""
    unknown = np.where(why.cause == CAUSES.index(Cause.UNKNOWN), path.duration_ns, 0)
    owned = (path.owner >= 0) & (events.category[path.owner] == Category.ANNOTATION)
    if not (unknown * owned).any():
        return ""
    of = np.bincount(events.name[path.owner[owned]], unknown[owned])
    return events.names[int(of.argmax())] if of.max() > 0.5 * unknown.sum() else ""


def _typical(path: CriticalPath, periods: Periods) -> np.ndarray | None:
    """The segments in typical steps; None where all are, or none."""
    steps = periods.steps
    usual = typical(steps.periods_ns)
    if not steps.back_to_back or usual.all() or not usual.any():
        return None
    middle_ns = path.start_ns + path.duration_ns // 2
    at = np.searchsorted(steps.done_ns[steps.first : steps.end], middle_ns)
    return usual[np.minimum(at, len(usual) - 1)]


def _gains(periods: Periods, causes: Sequence[Cause]) -> dict[Cause, float]:
    """Share of the period saved if all time of each cause were gone."""
    period_ns, of = periods.steps.period_ns, CAUSE_CODES[periods.dag.label]
    found: dict[Cause, float] = {}
    for cause in causes:
        spent = of == CAUSES.index(cause)
        if cause in (Cause.UNKNOWN, Cause.STRAGGLER) or not period_ns or not spent.any():
            continue  # who is waited for decides it, not what could be faster by itself
        weight_ns = np.where(spent, 0, periods.dag.weight_ns)
        found[cause] = 1.0 - periods.replayed(weight_ns) / period_ns
    return found


def _by_knowledge(path: CriticalPath, known: np.ndarray) -> dict[str, float]:
    sums = np.bincount(known, path.duration_ns, len(Known)) / max(path.length_ns, 1)
    return {one.name.lower(): float(sums[one]) for one in Known}


def _matched(graph: OperatorGraph | None, node_ns: Mapping[str, int]) -> float | None:
    """Share of the model's nodes that do any work which have a time."""
    if graph is None:
        return None
    working = [node for node in graph.nodes if plain_op(node.op) not in NO_WORK]
    return sum(node.name in node_ns for node in working) / max(len(working), 1)


def _tried(events: Events, in_window: np.ndarray) -> set[str]:
    """The conversions whose marks the trace bears: fused kernels, nodes, launched graphs."""
    codes = np.flatnonzero(np.bincount(events.name[in_window], minlength=1))
    found: set[str] = set()
    if any(is_fused(events.names[code]) for code in codes if len(events.names)):
        found |= {"inductor", "aot_inductor"}
    if (events.category[in_window] == Category.NODE).any():
        found |= {"onnxruntime", "onnxruntime_cuda", "inductor_reduce_overhead", "cudagraphs"}
    graphs = (events.graph_node != NOTHING) | events.called(GRAPH_LAUNCH.search)
    if graphs[in_window].any():
        found |= {"inductor_reduce_overhead", "cudagraphs"}
    return found


def _warnings(
    events: Events, steps: Steps, matched_ratio: float | None, dilation_ratio: float | None
) -> tuple[str, ...]:
    found = [*steps.notes, *filter(None, [last_ranks(events)])]
    if dilation_ratio is not None and dilation_ratio > SLOWED_DILATION:
        found.append(
            f"Profiled, a call takes {dilation_ratio:.2f} times as long as without: gains hold "
            "for the profiled program, and host work is overstated."
        )
    if events.repairs.keys() & {"truncated file", "truncated gzip"}:
        found.append("The file ends in the middle, so the trace lacks events.")
    found += filter(None, [unrecorded(events, steps)])
    if (events.category == Category.OTHER).all():
        found.append(
            "No event has a category of a known profiler, so the cause of their time is unknown. "
            "Profile with torch.profiler, ONNX Runtime or Nsight Systems."
        )
    if matched_ratio == 0:
        found.append("No node of the model was found in the trace, so nothing is drawn on it.")
    return tuple(found)
