"""Edges of host threads: along each, and between them where one starts or waits for another."""

import re
from collections.abc import Sequence

import numpy as np

from benchorch.trace.arrays import Int8s, Int64s, mask
from benchorch.trace.dag import CLASSES, NOBODY, Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.edge_list import Edges, FoundEdges, edges
from benchorch.trace.graph.scope import Scope
from benchorch.trace.graph.thread_timelines import BusyIntervals, ThreadTimelines
from benchorch.trace.graph.time_classes import segment_labels, waiting
from benchorch.trace.lookup import by_lane

_RECURS = 4  # times: so often is no coincidence


def thread_edges(
    scope: Scope, timelines: ThreadTimelines, label: Int8s, others: Sequence[FoundEdges]
) -> FoundEdges:
    """Each thread's own order: all that passed is weight, unless something else was waited for."""
    owner, weight_ns = timelines.owner, timelines.elapsed_ns
    segment = np.full(2 * len(scope), NOBODY, dtype=np.int32)
    segment[timelines.head] = np.arange(len(timelines.head), dtype=np.int32)
    for one in others:
        at = segment[one.waits]
        known = at != NOBODY  # nothing comes before a thread's first point
        np.minimum.at(weight_ns, at[known], one.floor_ns[known])
    labels = segment_labels(scope, owner, timelines.lane, timelines.elapsed_ns, label)
    kept = ~np.isin(timelines.head, np.concatenate([one.cuts for one in others]))
    first = timelines.walk[timelines.first]
    first = first[scope.lane[first >> 1] == scope.main_lane]
    ran_ns = scope.start_ns[first >> 1] - scope.window.start_ns
    source, ran = np.full(len(first), 2 * len(scope)), (Class.CARRY_IN, Tier.RECORDED, ran_ns)
    passed = labels, Tier.RECORDED, weight_ns, owner
    return FoundEdges(
        edges(timelines.tail, timelines.head, EdgeKind.CHAIN, *passed).kept(kept),
        edges(source, first, EdgeKind.BOUNDARY, *ran),
    )


# That PyTorch's backward threads work for a thread which stands still meanwhile follows from what a
# backward call does. All else is inferred, and only where every sign agrees.
_BACKWARD = re.compile(r"^autograd::engine::evaluate_function")


def backward_calls(scope: Scope, timelines: ThreadTimelines, busy: BusyIntervals) -> FoundEdges:
    """Fork and join of backward operators' busy intervals by the forward thread, which waits.

    Where it has a single segment around all of the interval; before and after it is its own work.
    """
    operator = scope.named(_BACKWARD, Category.OPERATOR, Category.ANNOTATION)
    caller = scope.events.forward_lane[scope.event[operator]]
    elsewhere = (caller != NOTHING) & (caller != scope.lane[operator])
    elsewhere &= len(busy.start) > 0
    begins = operator[elsewhere]
    within = by_lane(busy.lane, busy.start_ns, scope.lane[begins], scope.start_ns[begins], "right")
    at, first = np.unique(np.maximum(within - 1, 0), return_index=True)
    segment = timelines.segment_at(caller[elsewhere][first], busy.start_ns[at])
    around = (segment != NOTHING) & (timelines.end_ns[segment] >= busy.end_ns[at])
    at, segment = at[around], segment[around]
    # Intervals come by lane and time. A pass may pause: what runs in the pause is not recorded,
    # but it belongs to the pass. So one segment of the caller has one fork and one join a thread.
    first_in_segment = np.diff(segment, prepend=-1) != 0
    first_in_segment |= np.diff(busy.lane[at], prepend=-1) != 0
    last_in_segment = np.append(first_in_segment[1:], True)[: len(at)]
    rigid = busy.start[at[~first_in_segment]]
    first, segment_of_first = at[first_in_segment], segment[first_in_segment]
    last, segment_of_last = at[last_in_segment], segment[last_in_segment]
    python, framework = CLASSES.index(Class.CPU_PYTHON), CLASSES.index(Class.CPU_FRAMEWORK)

    def crossing(tail: Int64s, head: Int64s, kind: EdgeKind, segments: Int64s) -> Edges:
        owner = timelines.owner[segments]
        label = np.where(owner == NOBODY, python, framework).astype(np.int8)
        took_ns = timelines.time_ns[head] - timelines.time_ns[tail]
        return edges(tail, head, kind, label, Tier.SEMANTIC, took_ns, owner)

    called, head = timelines.tail[segment_of_first], timelines.head[segment_of_last]
    return FoundEdges(
        crossing(called, busy.start[first], EdgeKind.FORK, segment_of_first),
        crossing(busy.end[last], head, EdgeKind.JOIN, segment_of_last),
        waits=head,
        rigid=rigid,
    )


_CALLED = re.compile(r"^c10d::")
_AWAITED = re.compile(r"built-in method wait of ")
_CARRIED_OUT = re.compile(r"^(gloo|mpi):")


def collective_calls(scope: Scope, timelines: ThreadTimelines) -> FoundEdges:
    """From the call of a collective to its range on the process group's thread, in order.

    And from there to the end of the wait for it; without stacks that is the pause after the call,
    of threads that never go on before the range ends.
    """
    calls = scope.named(_CALLED, Category.OPERATOR)
    ranges = scope.named(_CARRIED_OUT, Category.ANNOTATION)
    rank = scope.events.ranks[scope.lane]
    pairs = []
    for one in np.unique(rank[ranges]):
        call, done = (
            these[np.argsort(scope.start_ns[these], kind="stable")]
            for these in (calls[rank[calls] == one], ranges[rank[ranges] == one])
        )
        count = min(len(call), len(done))
        pair = np.stack([call[:count], done[:count]])
        late_ns = scope.start_ns[pair[1]] - scope.start_ns[pair[0]]
        if ((late_ns >= 0) & (scope.lane[pair[0]] != scope.lane[pair[1]])).all():
            pairs.append(pair)
    if not pairs:
        return FoundEdges()
    call, done = np.concatenate(pairs, axis=1)
    late_ns = np.minimum(scope.start_ns[done] - scope.start_ns[call], scope.thresholds.wake_ns)
    waits = scope.named(_AWAITED, Category.PYTHON)
    order = np.argsort(call)
    at = np.searchsorted(waits, call[order])
    following = np.append(waits, len(scope))[at]  # the first after each call, before the next one
    own = following < np.append(call[order][1:], len(scope))
    own &= scope.lane[np.minimum(following, len(scope) - 1)] == scope.lane[call[order]]
    wait, work = following[own], done[order][own]
    late = scope.end_ns[work] <= scope.end_ns[wait]
    pause, awaited = _pauses(scope, timelines, call[order][~own], done[order][~own])
    resumed = timelines.head[pause]
    resumed_ns = timelines.end_ns[pause] - scope.end_ns[awaited]
    resumed_ns = np.minimum(resumed_ns, scope.thresholds.wake_ns)
    join, known = (EdgeKind.JOIN, Class.CPU_FRAMEWORK), (Class.CPU_FRAMEWORK, Tier.SEMANTIC)
    return FoundEdges(
        edges(2 * call, 2 * done, EdgeKind.FORK, *known, late_ns),
        edges(2 * work[late] + 1, 2 * wait[late] + 1, EdgeKind.JOIN, *known),
        edges(2 * awaited + 1, resumed, *join, Tier.INFERRED, resumed_ns),
        waits=np.concatenate([2 * done, resumed]),
    )


def _pauses(
    scope: Scope, timelines: ThreadTimelines, call: Int64s, done: Int64s
) -> tuple[Int64s, Int64s]:
    """The pauses in which threads wait for the collectives that they called, and their ranges."""
    later = scope.end_ns[done] > scope.end_ns[call]
    call, done = call[later], done[later]
    segment = timelines.segment_at(scope.lane[call], scope.end_ns[done])
    waits = (segment != NOTHING) & (timelines.start_ns[segment] <= scope.end_ns[call])
    lane = scope.lane[call]
    some = np.bincount(lane, minlength=len(scope.events.lanes)) >= _RECURS
    sure = some[lane] & ~np.isin(lane, lane[~waits])
    return segment[sure], done[sure]


def within_ranges(scope: Scope, timelines: ThreadTimelines, busy: BusyIntervals) -> FoundEdges:
    """What other threads of a process do inside of a range of the main thread stays inside of it.

    That is a busy interval in a person's range, or a node or a device's work in a run of ONNX
    Runtime, which waits for the threads of its pool and for its streams.
    """
    node, programs = scope.indices(Category.NODE), scope.events.programs
    other = (busy.lane != scope.main_lane) & (programs[busy.lane] == programs[scope.main_lane])
    node = node[scope.lane[node] != scope.main_lane]
    node = np.concatenate([node, _of_sessions(scope)])
    start = np.concatenate([busy.start[other], 2 * node])
    end = np.concatenate([busy.end[other], 2 * node + 1])
    start_ns, end_ns = timelines.time_ns[start], timelines.time_ns[end]
    segment = timelines.segment_at(np.full(len(start), scope.main_lane), start_ns)
    event = np.where(segment != NOTHING, timelines.owner[segment], NOBODY)
    named = mask(len(scope), scope.indices(Category.ANNOTATION, Category.SESSION))
    named[waiting(scope)] = False
    # Nothing is around the profiler's own time, which is no host event.
    parent = np.append(scope.parent, np.full(len(scope) - scope.hosts, NOBODY))
    while True:
        short = (event != NOBODY) & ((scope.end_ns[event] < end_ns) | ~named[event])
        if not short.any():
            break
        event = np.where(short, parent[event], event)
    inside = event != NOBODY
    event, start, end = event[inside], start[inside], end[inside]
    run = scope.category[event] == Category.SESSION
    first_ns, last_ns = scope.end_ns.copy(), scope.start_ns.copy()
    np.minimum.at(first_ns, event, start_ns[inside])
    np.maximum.at(last_ns, event, end_ns[inside])
    first = run & (start_ns[inside] == first_ns[event])
    called_ns = np.where(first, (first_ns - scope.start_ns)[event], 0)
    resumed_ns = np.where(run, (scope.end_ns - last_ns)[event], 0)
    tier = np.where(run, Tier.SEMANTIC, Tier.INFERRED).astype(np.int8)
    forks = edges(2 * event, start, EdgeKind.FORK, Class.SYNC_EXIT, tier, called_ns)
    return FoundEdges(
        forks.kept((start < 2 * scope.hosts) | (scope.launch[start >> 1] == NOTHING)),
        edges(end, 2 * event + 1, EdgeKind.JOIN, Class.SYNC_EXIT, tier, resumed_ns),
        waits=2 * event[run] + 1,
        floor_ns=resumed_ns[run],
    )


def _of_sessions(scope: Scope) -> Int64s:
    """The device work of ONNX Runtime: nodes start it, and no record says what waits for it."""
    if not len(scope.indices(Category.SESSION)):
        return np.zeros(0, dtype=np.int64)
    call = scope.launch[scope.device]
    own = (call == NOTHING) | (scope.category[call] == Category.NODE)
    return scope.hosts + np.flatnonzero(own)


def thread_starts(
    scope: Scope, timelines: ThreadTimelines, busy: BusyIntervals, explained: Int64s
) -> FoundEdges:
    """The main thread started each thread that the trace shows for the first time, just before."""
    new = np.flatnonzero(busy.is_first & (busy.lane != scope.main_lane))
    new = new[~np.isin(busy.start[new], explained)]
    if not len(new):
        return FoundEdges()
    first_ns = np.full(len(scope.events.lanes), np.iinfo(np.int64).max)
    np.minimum.at(first_ns, scope.events.lane, scope.events.start_ns)
    start_ns = busy.start_ns[new]
    main = np.full(len(new), scope.main_lane, dtype=np.int32)
    segment = timelines.segment_at(main, start_ns - scope.thresholds.woken_ns)
    ran = (segment != NOTHING) & (first_ns[busy.lane[new]] == start_ns)
    return FoundEdges(_inferred(timelines.tail[segment[ran]], busy.start[new[ran]], EdgeKind.FORK))


def inferred_wakeups(
    scope: Scope, timelines: ThreadTimelines, busy: BusyIntervals, explained: Int64s, rigid: Int64s
) -> FoundEdges:
    """From the end of another thread's busy interval to the end of a gap, if every sign agrees.

    The gap is long, between events or in a container, and nothing better explains it; the other
    thread worked during it, stopped shortly before it ended, and was idle then, too.
    """
    idle = busy.idle & ~busy.wait
    gap = np.flatnonzero(idle)
    gap = gap[~np.isin(timelines.head[gap], explained)]
    first = busy.start[busy.is_first & (busy.lane != scope.main_lane)]
    head = np.concatenate([timelines.head[gap], np.setdiff1d(first, explained)])
    begin_ns = np.full(len(head), scope.window.start_ns)
    begin_ns[: len(gap)] = timelines.start_ns[gap]
    end_ns = timelines.time_ns[head]
    soon_ns = np.maximum(begin_ns, end_ns - scope.thresholds.wake_ns - 1)
    tail = scope.last_elsewhere(busy.end, scope.lane[head >> 1], end_ns, soon_ns)
    head, tail = head[tail != NOTHING], tail[tail != NOTHING]
    on_main = scope.lane[head >> 1] == scope.main_lane
    others = np.flatnonzero(
        idle
        & (timelines.owner == NOBODY)
        & (timelines.lane != scope.main_lane)
        & ~np.isin(timelines.head, rigid)
    )
    return FoundEdges(
        _inferred(tail[on_main], head[on_main], EdgeKind.JOIN),
        _inferred(tail[~on_main], head[~on_main], EdgeKind.FORK),
        waits=np.concatenate([head, timelines.head[others]]),
    )


def recurring_wakeups(
    scope: Scope, timelines: ThreadTimelines, busy: BusyIntervals, explained: Int64s
) -> FoundEdges:
    """From a call of another thread to the end of a pause of the main thread, if always so.

    That is, if pauses before the same event again and again end just after the same call.
    """
    gap = np.flatnonzero(busy.idle & ~busy.wait & (timelines.lane == scope.main_lane))
    gap = gap[~np.isin(timelines.head[gap], explained)]
    done = np.flatnonzero((scope.depth == 0) & (scope.lane[scope.host] != scope.main_lane))
    done = done[scope.category[done] != Category.PYTHON]
    head, end_ns = timelines.head[gap], timelines.end_ns[gap]
    soon_ns = np.maximum(timelines.start_ns[gap], end_ns - scope.thresholds.wake_ns)
    tail = scope.last_elsewhere(2 * done + 1, scope.lane[head >> 1], end_ns, soon_ns)
    late_ns = end_ns - timelines.time_ns[tail]
    found: list[Int64s] = [gap[:0]]
    for name in np.unique(scope.name[head >> 1]):
        alike = np.flatnonzero(scope.name[head >> 1] == name)
        known = alike[tail[alike] != NOTHING]
        if len(known) < max(_RECURS, 0.8 * len(alike)):
            continue
        same = len(np.unique(scope.name[tail[known] >> 1])) == 1
        if same and np.ptp(late_ns[known]) <= scope.thresholds.idle_ns / 2:
            found.append(known)
    at = np.concatenate(found)
    resumed = head[at].astype(np.int64)
    return FoundEdges(_inferred(tail[at], resumed, EdgeKind.JOIN), waits=resumed)


def _inferred(tail: Int64s, head: Int64s, kind: EdgeKind) -> Edges:
    return edges(tail, head, kind, Class.SYNC_EXIT, Tier.INFERRED)
