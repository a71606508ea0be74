"""What made a thread start working, and which thread needed it to be done?

Recorded is that a backward operator follows its forward one. That PyTorch's backward threads work
for a thread which stands still meanwhile follows from what a backward call does. All else is
inferred, and only where every sign agrees.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import CLASSES, NOBODY, Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.busy_intervals import BusyIntervals
from benchorch.trace.graph.edge_list import Edges, Found, edges, found
from benchorch.trace.graph.point_lookup import SegmentIndex, moments
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines
from benchorch.trace.graph.thresholds import Thresholds
from benchorch.trace.graph.time_classes import waiting

_BACKWARD = re.compile(r"^autograd::engine::evaluate_function")


def backward_after_forward(scope: Scope) -> Found:
    """From the forward operator that recorded a sequence number to the backward one that has it.

    Operators inside each other share a number: the innermost forward one recorded it, and the
    outermost backward one is where its work begins.
    """
    operator = scope.indices(Category.OPERATOR)
    operator = operator[scope.sequence[operator] != NOTHING]
    backward = scope.forward_lane[operator] != NOTHING
    forward, backward = operator[~backward], operator[backward]
    parent = scope.parent[backward]
    inner = (parent != NOBODY) & (scope.sequence[parent] == scope.sequence[backward])
    backward = backward[~inner]
    order = np.lexsort((scope.start_ns[forward], scope.sequence[forward], scope.lane[forward]))
    forward = forward[order]
    if not len(forward) or not len(backward):
        return found()
    span = int(scope.sequence[operator].max()) + 1
    key = scope.lane[forward].astype(np.int64) * span + scope.sequence[forward]
    asked = scope.forward_lane[backward].astype(np.int64) * span + scope.sequence[backward]
    at = np.searchsorted(key, asked, side="right") - 1
    known = (at >= 0) & (key[at] == asked)
    return found(
        edges(
            2 * forward[at[known]] + 1,
            2 * backward[known],
            kind=EdgeKind.DATA,
            label=Class.CPU_FRAMEWORK,
        )
    )


def backward_bursts(
    scope: Scope,
    chains: ThreadTimelines,
    time_ns: NDArray[np.int64],
    burst: BusyIntervals,
    table: SegmentIndex,
) -> Found:
    """Spawn and join of bursts of backward operators by the thread that called for them.

    That is the forward thread, where it has a single stretch around the whole burst. What it did
    before the first burst and after the last one is its own work, not waiting.
    """
    operator = scope.named(_BACKWARD, Category.OPERATOR, Category.ANNOTATION)
    caller = scope.forward_lane[operator]
    operator, caller = operator[caller != NOTHING], caller[caller != NOTHING]
    elsewhere = caller != scope.lane[operator]
    mine = _burst_of(scope, time_ns, burst, operator[elsewhere])
    mine, first = np.unique(mine, return_index=True)
    caller = caller[elsewhere][first]
    stretch = table.stretch_at(caller, time_ns[burst.start[mine]])
    around = (stretch != NOTHING) & (table.ends_ns[stretch] >= time_ns[burst.end[mine]])
    mine, stretch = mine[around], stretch[around]
    begins = _first_in(stretch, burst.lane[mine])
    label = np.where(
        chains.owner[stretch] == NOBODY,
        CLASSES.index(Class.CPU_PYTHON),
        CLASSES.index(Class.CPU_FRAMEWORK),
    ).astype(np.int8)
    before_ns = time_ns[burst.start[mine]] - table.starts_ns[stretch]
    after_ns = table.ends_ns[stretch] - time_ns[burst.end[mine]]
    fork = edges(
        chains.tail[stretch],
        burst.start[mine],
        kind=EdgeKind.FORK,
        tier=Tier.SEMANTIC,
        weight_ns=np.where(begins, before_ns, 0),
        label=label,
        owner=chains.owner[stretch],
    )
    join = edges(
        burst.end[mine],
        chains.head[stretch],
        kind=EdgeKind.JOIN,
        tier=Tier.SEMANTIC,
        weight_ns=after_ns,
        label=label,
        owner=chains.owner[stretch],
    )
    return found(fork, join, waits=chains.head[stretch])


def _burst_of(
    scope: Scope, time_ns: NDArray[np.int64], burst: BusyIntervals, event: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The burst in which each event starts."""
    if not len(burst.start):
        return np.zeros(0, dtype=np.int64)
    first_ns = scope.window.start_ns
    span_ns = int(time_ns[-1]) - first_ns + 1
    key = burst.lane * np.int64(span_ns) + time_ns[burst.start] - first_ns
    asked = scope.lane[event] * np.int64(span_ns) + scope.start_ns[event] - first_ns
    return np.maximum(np.searchsorted(key, asked, side="right") - 1, 0)


def _first_in(stretch: NDArray[np.int64], lane: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which burst is its lane's first in a stretch; bursts come by lane and time."""
    begins: NDArray[np.bool_] = np.diff(stretch, prepend=-1) != 0
    begins |= np.diff(lane, prepend=-1) != 0
    return begins


def regions(
    scope: Scope,
    chains: ThreadTimelines,
    time_ns: NDArray[np.int64],
    burst: BusyIntervals,
    table: SegmentIndex,
) -> Found:
    """A burst that lies inside a range of the main thread comes after its start, before its end.

    Ranges are those that somebody named: that an operator lasts longer means nothing. The main
    thread does not wait for it; its range only stays around the burst when other things change.
    """
    other = np.flatnonzero(burst.lane != scope.main_lane)
    start_ns, end_ns = time_ns[burst.start[other]], time_ns[burst.end[other]]
    stretch = table.stretch_at(np.full(len(other), scope.main_lane), start_ns)
    other, end_ns = other[stretch != NOTHING], end_ns[stretch != NOTHING]
    event = chains.owner[stretch[stretch != NOTHING]]
    named = np.zeros(len(scope), dtype=np.bool_)
    named[scope.indices(Category.ANNOTATION)] = True
    named[waiting(scope)] = False
    short = (event != NOBODY) & ((scope.end_ns[event] < end_ns) | ~named[event])
    while short.any():
        event = np.where(short, _around(scope, event), event)
        short = (event != NOBODY) & ((scope.end_ns[event] < end_ns) | ~named[event])
    other, event = other[event != NOBODY], event[event != NOBODY]
    return found(
        _inferred(2 * event, burst.start[other], EdgeKind.FORK),
        _inferred(burst.end[other], 2 * event + 1, EdgeKind.JOIN),
    )


def _around(scope: Scope, event: NDArray[np.int64]) -> NDArray[np.int64]:
    """The event around each; there is none around the profiler's own time."""
    hosts = event < scope.hosts
    return np.where(hosts, scope.parent[np.where(hosts, event, 0)], NOBODY)


def _inferred(tail: NDArray[np.int64], head: NDArray[np.int64], kind: EdgeKind) -> Edges:
    return edges(tail, head, kind=kind, tier=Tier.INFERRED, label=Class.SYNC_EXIT)


def started(
    scope: Scope,
    chains: ThreadTimelines,
    time_ns: NDArray[np.int64],
    burst: BusyIntervals,
    table: SegmentIndex,
    explained: NDArray[np.int64],
    thresholds: Thresholds,
) -> Found:
    """A thread that the trace shows for the first time was started by the main one.

    That is, after the main thread's last point before it, for starting a thread takes a while; if
    the main thread waits already, after it began to.
    """
    new = np.flatnonzero((burst.before == NOBODY) & (burst.lane != scope.main_lane))
    new = new[~np.isin(burst.start[new], explained)]
    if not len(new):
        return found()
    first_ns = np.full(len(scope.events.lanes), np.iinfo(np.int64).max)
    np.minimum.at(first_ns, scope.events.lane, scope.events.start_ns)
    start_ns = time_ns[burst.start[new]]
    at_ns = start_ns - thresholds.woken_ns
    stretch = table.stretch_at(np.full(len(new), scope.main_lane, dtype=np.int32), at_ns)
    ran = (stretch != NOTHING) & (first_ns[burst.lane[new]] == start_ns)
    return found(_inferred(chains.tail[stretch[ran]], burst.start[new[ran]], EdgeKind.FORK))


def inferred(
    scope: Scope,
    chains: ThreadTimelines,
    time_ns: NDArray[np.int64],
    burst: BusyIntervals,
    explained: NDArray[np.int64],
    thresholds: Thresholds,
) -> Found:
    """From the end of another thread's burst to the end of a gap, where every sign agrees.

    The gap is long, lies between events or in a container, and nothing better explains it; the
    other thread worked during the gap, stopped shortly before it ended, and was idle then, too.
    """
    gap = np.flatnonzero(burst.idle & ~burst.wait)
    gap = gap[~np.isin(chains.head[gap], explained)]
    first = burst.start[(burst.before == NOBODY) & (burst.lane != scope.main_lane)]
    head = np.concatenate([chains.head[gap], np.setdiff1d(first, explained)])
    begin_ns = np.full(len(head), scope.window.start_ns)
    begin_ns[: len(gap)] = time_ns[chains.tail[gap]]
    lane = scope.lane[head >> 1]
    known = moments(burst.end, burst.lane, time_ns[burst.end])
    at = known.last_elsewhere(lane, time_ns[head])
    soon_ns = np.maximum(begin_ns, time_ns[head] - thresholds.wake_ns - 1)
    ended = (at >= 0) & (known.time_ns[at] > soon_ns) if len(burst.end) else at > NOTHING
    head, lane, at = head[ended], lane[ended], at[ended]
    kinds = lane == scope.main_lane
    idle = np.flatnonzero(burst.idle & ~burst.wait & (chains.owner == NOBODY))
    idle = idle[scope.lane[chains.head[idle] >> 1] != scope.main_lane]
    return found(
        _inferred(known.point[at[kinds]], head[kinds], EdgeKind.JOIN),
        _inferred(known.point[at[~kinds]], head[~kinds], EdgeKind.FORK),
        waits=np.concatenate([head, chains.head[idle]]),
    )
