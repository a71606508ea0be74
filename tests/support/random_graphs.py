"""Random dependency graphs, drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from benchorch.trace.dag import CLASSES, NOBODY, Class, Dag, EdgeKind, Tier, Window

FEWER = settings(max_examples=50)
"""Drawing a graph takes longer than what is asked of it; `trace_truth/test_replay.py` checks I1
to I5 on 150 programs, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One dependency, by points; who owns it and what it is spent on are by the way."""

    tail: int
    head: int
    weight_ns: int
    kind: EdgeKind = EdgeKind.WORK
    tier: Tier = Tier.RECORDED
    label: Class = Class.CPU_COMPUTE
    owner: int = NOBODY


def dag_of(
    time_ns: Sequence[int],
    edges: Iterable[Edge],
    *,
    lane: Sequence[int] | None = None,
    event: Sequence[int] | None = None,
) -> Dag:
    """A valid graph: edges sorted by head, and of every point the residual that explains it."""
    edges = sorted(edges, key=lambda edge: edge.head)
    points = len(time_ns)
    latest = [int(time_ns[0])] + [-(2**62)] * (points - 1)
    for edge in edges:
        latest[edge.head] = max(latest[edge.head], time_ns[edge.tail] + edge.weight_ns)
    times = np.array(time_ns, dtype=np.int64)
    events = [NOBODY, *range(points - 2), NOBODY][:points] if event is None else event
    return Dag(
        time_ns=times,
        event=np.array(events, dtype=np.int32),
        lane=np.array([0] * points if lane is None else lane, dtype=np.int32),
        is_end=np.zeros(points, dtype=np.bool_),
        residual_ns=times - np.array(latest, dtype=np.int64),
        tail=np.array([edge.tail for edge in edges], dtype=np.int32),
        head=np.array([edge.head for edge in edges], dtype=np.int32),
        weight_ns=np.array([edge.weight_ns for edge in edges], dtype=np.int64),
        kind=np.array([edge.kind for edge in edges], dtype=np.int8),
        tier=np.array([edge.tier for edge in edges], dtype=np.int8),
        label=np.array([CLASSES.index(edge.label) for edge in edges], dtype=np.int8),
        owner=np.array([edge.owner for edge in edges], dtype=np.int32),
        window=Window(start_ns=int(times[0]), end_ns=int(times[-1])),
    )


@st.composite
def dags(draw: st.DrawFn, *, most_points: int = 14, residuals: bool = True, owners: int = 5) -> Dag:
    """Any graph that the rules allow: parallel edges, ties, zero weights, dead ends, long chains.

    Without residuals every point has one edge that explains all of its time. Weights belong to
    events 0 to `owners` - 1, or to nobody.
    """
    points = draw(st.integers(1, most_points))
    start = draw(st.sampled_from([0, 1_000, -500]))
    gaps = draw(st.lists(st.integers(0, 40), min_size=points - 1, max_size=points - 1))
    times = [start, *(start + int(total) for total in np.cumsum(gaps))]
    edges = []
    for head in range(1, points):
        # Mostly the point before, so that chains come about; now and then several edges.
        tails = draw(
            st.just([head - 1]) | st.lists(st.integers(0, head - 1), min_size=1, max_size=3)
        )
        for place, tail in enumerate(tails):
            elapsed = times[head] - times[tail]
            all_of_it = not residuals and place == 0
            edges.append(
                Edge(
                    tail=tail,
                    head=head,
                    weight_ns=elapsed if all_of_it else draw(_weights(elapsed)),
                    kind=draw(st.sampled_from(EdgeKind)),
                    tier=draw(st.sampled_from([Tier.RECORDED, Tier.SEMANTIC, Tier.INFERRED])),
                    label=draw(st.sampled_from(CLASSES[:4])),
                    owner=draw(st.integers(NOBODY, owners - 1)),
                )
            )
    return dag_of(times, edges)


def _weights(elapsed_ns: int) -> st.SearchStrategy[int]:
    return st.just(elapsed_ns) | st.integers(0, elapsed_ns)


@st.composite
def lane_dags(draw: st.DrawFn, *, most_lanes: int = 3, most_events: int = 4) -> Dag:
    """A graph as of a trace: lanes of events one after another, and what crosses between them.

    Lane 0 is a host thread whose gaps are rigid; the others are streams, whose gaps are waiting
    and whose every event was launched by the host. Event e owns its WORK edge, and lanes keep
    their order. The last points lead to the sink.
    """
    lanes = draw(st.integers(1, most_lanes))
    spans = []  # of every event: lane, start, end
    for lane in range(lanes):
        now = 0
        for _ in range(draw(st.integers(1, most_events))):
            start = now + draw(st.integers(0, 20))
            now = start + draw(st.integers(0, 30))
            spans.append((lane, start, now))
    marks = sorted(
        (moment, event, is_end)
        for event, (_, start, end) in enumerate(spans)
        for is_end, moment in ((False, start), (True, end))
    )
    point = {(event, is_end): 1 + place for place, (_, event, is_end) in enumerate(marks)}
    sink = len(marks) + 1
    times = [0, *(moment for moment, _, _ in marks), max(end for _, _, end in spans)]
    edges = []

    def connect(tail: int, head: int, kind: EdgeKind, label: Class, **other: object) -> None:
        elapsed = times[head] - times[tail]
        weight = elapsed if kind in (EdgeKind.WORK, EdgeKind.CHAIN) else draw(_weights(elapsed))
        edges.append(Edge(tail=tail, head=head, weight_ns=weight, kind=kind, label=label, **other))

    for event, (lane, start, _) in enumerate(spans):
        label = Class.GPU_COMPUTE if lane else Class.CPU_COMPUTE
        connect(point[event, False], point[event, True], EdgeKind.WORK, label, owner=event)
        first = event == 0 or spans[event - 1][0] != lane
        before = 0 if first else point[event - 1, True]
        if lane == 0:
            connect(before, point[event, False], EdgeKind.CHAIN, Class.CPU_PYTHON)
        else:
            connect(before, point[event, False], EdgeKind.STREAM, Class.STREAM_GAP)
            launches = [
                point[other, False]
                for other, (of, began, _) in enumerate(spans)
                if of == 0 and began <= start and point[other, False] < point[event, False]
            ]
            if launches:
                by = draw(st.sampled_from(launches))
                connect(by, point[event, False], EdgeKind.LAUNCH, Class.LAUNCH_LATENCY)
        if event + 1 == len(spans) or spans[event + 1][0] != lane:
            connect(point[event, True], sink, EdgeKind.BOUNDARY, Class.CPU_PYTHON)
    of_point = [NOBODY, *(event for _, event, _ in marks), NOBODY]
    return dag_of(
        times, edges, lane=[spans[e][0] if e >= 0 else 0 for e in of_point], event=of_point
    )
