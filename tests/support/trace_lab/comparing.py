"""Comparison of an analysis with the truth: events with intervals, edges with causes."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchorch.trace.dag import Dag, EdgeKind, Tier
from benchorch.trace.events import Events
from support.trace_lab.simulator import NOBODY, Interval, Run, Why

CROSS_KINDS = (
    EdgeKind.LAUNCH,
    EdgeKind.STREAM,
    EdgeKind.SYNC,
    EdgeKind.WAIT,
    EdgeKind.FORK,
    EdgeKind.JOIN,
)
CROSS_CAUSES = (Why.LAUNCH, Why.STREAM, Why.EVENT, Why.GRAPH, Why.SYNC, Why.SIGNAL)
BLUR_NS = 1_000
Boundary = tuple[int, bool]  # of an interval, and whether it is its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """So many of so many; one of nothing."""

    hits: int
    total: int

    @property
    def value(self) -> float:
        return self.hits / self.total if self.total else 1.0


def total(ratios: Sequence[Mapping[str, Ratio]]) -> dict[str, Ratio]:
    """Those of several programs together."""
    hits: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    for one in ratios:
        for key, ratio in one.items():
            hits[key] += ratio.hits
            totals[key] += ratio.total
    return {key: Ratio(hits=hits[key], total=totals[key]) for key in totals}


def intervals_of(events: Events, run: Run) -> list[int]:
    """Of every event the interval that it is a record of; NOBODY for rows about no interval.

    They are joined by name, duration and distance from the first row, so stamps must be exact.
    """
    known: defaultdict[tuple[str, int, int], list[int]] = defaultdict(list)
    for number, one in enumerate(run.intervals):
        duration_ns = run.end_ns(one) - run.start_ns(one)
        known[one.name, run.start_ns(one), duration_ns].append(number)
    zero_ns = _zero_ns(events, run)
    return [
        (known.get((events.names[name], int(start_ns) - zero_ns, int(ns))) or [NOBODY]).pop()
        for name, start_ns, ns in zip(events.name, events.start_ns, events.duration_ns, strict=True)
    ]


def _zero_ns(events: Events, run: Run) -> int:
    """What the trace's clock showed at the start: from any range whose name occurs once."""
    seen = Counter(events.names[name] for name in events.name)
    lone = {name for name, count in seen.items() if count == 1}
    counts = Counter(one.name for one in run.intervals)
    for index, name in enumerate(events.name):
        text = events.names[name]
        if text in lone and counts[text] == 1:
            found = next(one for one in run.intervals if one.name == text)
            return int(events.start_ns[index]) - run.start_ns(found)
    raise ValueError("no event's name occurs just once")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The dependencies of a run that an analysis has.

    Attributes:
        recall: of the true ones by why they are: how many follow from its graph.
        precision: of its edges between lanes by tier: how many follow from the truth.
        wrong: those edges that do not, in words.
    """

    recall: Mapping[str, Ratio]
    precision: Mapping[str, Ratio]
    wrong: tuple[str, ...]


def evidence(events: Events, dag: Dag, run: Run) -> Evidence:
    """Compare the dependencies of an analysis with the true ones."""
    intervals = intervals_of(events, run)
    points = _points(dag, intervals)
    precision, wrong = _precision(dag, points, run)
    return Evidence(recall=_recall(dag, points, run), precision=precision, wrong=wrong)


def _points(dag: Dag, intervals: Sequence[int]) -> dict[Boundary, int]:
    """Of every boundary its point in the graph."""
    return {
        (intervals[event], bool(is_end)): point
        for point, (event, is_end) in enumerate(zip(dag.event, dag.is_end, strict=True))
        if event >= 0 and intervals[event] != NOBODY
    }


def _recall(dag: Dag, points: Mapping[Boundary, int], run: Run) -> dict[str, Ratio]:
    before = _before(dag)
    hits: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    for why, tail, head in true_edges(run, points):
        totals[why] += 1
        hits[why] += bool(before[points[head]] >> points[tail] & 1)
    return {why: Ratio(hits=hits[why], total=totals[why]) for why in totals}


def true_edges(
    run: Run, recorded: Mapping[Boundary, Any]
) -> Iterator[tuple[str, Boundary, Boundary]]:
    """Dependencies between lanes, each from the last to the first boundary that was recorded.

    A thread that found its flag up did not wait: nothing shows whom it would have waited for.
    """
    boundaries = {
        point: boundary for boundary, point in _truth(run).items() if boundary in recorded
    }
    lanes: defaultdict[str, list[int]] = defaultdict(list)
    for point, (number, _) in boundaries.items():
        lanes[run.intervals[number].lane.name].append(point)
    for reached in lanes.values():
        reached.sort()
    owners = {one.end: one for one in run.intervals}
    for point, causes in enumerate(run.causes):
        for cause in causes:
            if cause.why not in CROSS_CAUSES:
                continue
            tail = _latest(run, cause.point, boundaries)
            head = _earliest(point, boundaries, owners, lanes)
            if tail is not None and head is not None:
                idle = cause.why is Why.SIGNAL and run.binding(point) is not cause
                why = f"{cause.why.value}, not waited for" if idle else cause.why.value
                yield why, boundaries[tail], boundaries[head]


def _truth(run: Run) -> dict[Boundary, int]:
    starts = {(number, False): one.start for number, one in enumerate(run.intervals)}
    return starts | {(number, True): one.end for number, one in enumerate(run.intervals)}


def _latest(run: Run, point: int, boundaries: Mapping[int, Boundary]) -> int | None:
    """The boundary that was there at a point of a host thread, or before it."""
    while point not in boundaries:
        if not run.causes[point]:
            return None
        point = run.causes[point][0].point
    return point


def _earliest(
    point: int,
    boundaries: Mapping[int, Boundary],
    owners: Mapping[int, Interval],
    lanes: Mapping[str, list[int]],
) -> int | None:
    if point in boundaries:
        return point
    if point not in owners:
        return None
    later = lanes[owners[point].lane.name]
    at = bisect_left(later, point)
    return later[at] if at < len(later) else None


def _precision(
    dag: Dag, points: Mapping[Boundary, int], run: Run
) -> tuple[dict[str, Ratio], tuple[str, ...]]:
    truth = _truth(run)
    before = run.before()
    boundaries = {point: boundary for boundary, point in points.items()}
    hits: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    wrong = []
    for edge in np.flatnonzero(np.isin(dag.kind, CROSS_KINDS)):
        ends = boundaries.get(int(dag.tail[edge])), boundaries.get(int(dag.head[edge]))
        if ends[0] is None or ends[1] is None:
            continue
        tier = Tier(int(dag.tier[edge])).name.lower()
        totals[tier] += 1
        if _follows(run, before[truth[ends[1]]], truth[ends[0]]):
            hits[tier] += 1
        else:
            wrong.append(_words(run, EdgeKind(int(dag.kind[edge])), tier, *ends))
    return {t: Ratio(hits=hits[t], total=totals[t]) for t in totals}, tuple(wrong)


def _follows(run: Run, before: int, point: int) -> bool:
    """Whether a point, or one of its thread just before it, is among those that come before.

    Flags are raised inside ranges, whose ends are the next thing that a profiler records.
    """
    since_ns = run.times_ns[point] - BLUR_NS
    while run.times_ns[point] >= since_ns:
        if before >> point & 1:
            return True
        if not run.causes[point] or run.causes[point][0].why is not Why.HOST:
            return False
        point = run.causes[point][0].point
    return False


def _words(run: Run, kind: EdgeKind, tier: str, tail: Boundary, head: Boundary) -> str:
    said = [
        f"{'end' if is_end else 'start'} of {run.intervals[number].name} at "
        f"{run.times_ns[_truth(run)[number, is_end]]} on {run.intervals[number].lane.name}"
        for number, is_end in (tail, head)
    ]
    return f"{kind.name} ({tier}): {said[0]} -> {said[1]}"


def _before(dag: Dag) -> list[int]:
    """Of every point of a graph the set of points that it comes after, as bits."""
    sets = [1 << point for point in range(dag.points)]
    order = np.argsort(dag.head, kind="stable")
    for tail, head in zip(dag.tail[order].tolist(), dag.head[order].tolist(), strict=True):
        sets[head] |= sets[tail]
    return sets


def of_names(events: Events, names: Sequence[str]) -> Any:
    """Whether each event has one of some names; shape (n,)."""
    wanted = [number for number, name in enumerate(events.names) if name in set(names)]
    return np.isin(events.name, wanted)
