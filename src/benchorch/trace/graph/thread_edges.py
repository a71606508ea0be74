"""Edges of host threads: along each, and between them where one starts or waits for another."""

import re
from collections.abc import Sequence

import numpy as np

from benchorch.trace.arrays import Int8s, Int64s, mask
from benchorch.trace.dag import CLASSES, NOBODY, Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.edge_list import Edges, Found, edges, found
from benchorch.trace.graph.scope import Scope
from benchorch.trace.graph.thread_timelines import BusyIntervals, ThreadTimelines
from benchorch.trace.graph.time_classes import segment_labels, waiting
from benchorch.trace.lookup import by_lane, event_index


def thread_edges(
    scope: Scope, timelines: ThreadTimelines, label: Int8s, others: Sequence[Found]
) -> Found:
    """Each thread's own order: all that passed is weight, unless something else was waited for.

    From the source to the main thread's first point Python ran.
    """
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
    return found(
        edges(
            timelines.tail,
            timelines.head,
            EdgeKind.CHAIN,
            labels,
            weight_ns=weight_ns,
            owner=owner,
        ).kept(kept),
        edges(
            np.full(len(first), 2 * len(scope)),
            first,
            EdgeKind.BOUNDARY,
            Class.CARRY_IN,
            weight_ns=scope.start_ns[first >> 1] - scope.window.start_ns,
        ),
    )


# Recorded is that a backward operator follows its forward one. That PyTorch's backward threads work
# for a thread which stands still meanwhile follows from what a backward call does. All else is
# inferred, and only where every sign agrees.
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
    requested = scope.forward_lane[backward].astype(np.int64) * span + scope.sequence[backward]
    at = np.searchsorted(key, requested, side="right") - 1
    known = (at >= 0) & (key[at] == requested)
    return found(
        edges(2 * forward[at[known]] + 1, 2 * backward[known], EdgeKind.DATA, Class.CPU_FRAMEWORK)
    )


def backward_calls(scope: Scope, timelines: ThreadTimelines, busy: BusyIntervals) -> Found:
    """Fork and join of busy intervals of backward operators by the thread that called for them.

    That is the forward thread, where it has a single segment around the whole interval. What it
    did before the first interval and after the last one is its own work, not waiting.
    """
    operator = scope.named(_BACKWARD, Category.OPERATOR, Category.ANNOTATION)
    caller = scope.forward_lane[operator]
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
        return edges(
            tail,
            head,
            kind,
            np.where(owner == NOBODY, python, framework).astype(np.int8),
            tier=Tier.SEMANTIC,
            weight_ns=timelines.time_ns[head] - timelines.time_ns[tail],
            owner=owner,
        )

    return found(
        crossing(
            timelines.tail[segment_of_first], busy.start[first], EdgeKind.FORK, segment_of_first
        ),
        crossing(busy.end[last], timelines.head[segment_of_last], EdgeKind.JOIN, segment_of_last),
        waits=timelines.head[segment_of_last],
        rigid=rigid,
    )


_CALLED = re.compile(r"^c10d::")
_AWAITED = re.compile(r"built-in method wait of ")
_CARRIED_OUT = re.compile(r"^(gloo|mpi):")


def collective_calls(scope: Scope, timelines: ThreadTimelines) -> Found:
    """From the call of a collective to its range on a thread of the process group, in order.

    And from the range to the end of the wait for it, whether that was long or none. Without
    stacks that is the pause after the call, of threads that never go on before the range ends.
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
        return found()
    call, done = np.concatenate(pairs, axis=1)
    late_ns = np.minimum(scope.start_ns[done] - scope.start_ns[call], scope.thresholds.wake_ns)
    kind, label = EdgeKind.FORK, Class.CPU_FRAMEWORK
    waits = scope.named(_AWAITED, Category.PYTHON)
    order = np.argsort(call)
    at = np.searchsorted(waits, call[order])
    following = np.append(waits, len(scope))[at]  # the first after each call, before the next one
    own = following < np.append(call[order][1:], len(scope))
    own &= scope.lane[np.minimum(following, len(scope) - 1)] == scope.lane[call[order]]
    wait, work = following[own], done[order][own]
    late = scope.end_ns[work] <= scope.end_ns[wait]
    pause, awaited = _pauses(scope, timelines, call[order][~own], done[order][~own])
    resumed_ns = timelines.end_ns[pause] - scope.end_ns[awaited]
    return found(
        edges(2 * call, 2 * done, kind, label, tier=Tier.SEMANTIC, weight_ns=late_ns),
        edges(2 * work[late] + 1, 2 * wait[late] + 1, EdgeKind.JOIN, label, tier=Tier.SEMANTIC),
        edges(
            2 * awaited + 1,
            timelines.head[pause],
            EdgeKind.JOIN,
            label,
            tier=Tier.INFERRED,
            weight_ns=np.minimum(resumed_ns, scope.thresholds.wake_ns),
        ),
        waits=np.concatenate([2 * done, timelines.head[pause]]),
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


def within_ranges(scope: Scope, timelines: ThreadTimelines, busy: BusyIntervals) -> Found:
    """A busy interval inside a range of the main thread comes after its start, before its end.

    Ranges are those that a person named: that an operator lasts longer means nothing. The main
    thread does not wait for it; its range only stays around the interval when other things change.
    """
    other = np.flatnonzero(busy.lane != scope.main_lane)
    segment = timelines.segment_at(np.full(len(other), scope.main_lane), busy.start_ns[other])
    other, segment = other[segment != NOTHING], segment[segment != NOTHING]
    event, end_ns = timelines.owner[segment], busy.end_ns[other]
    named = mask(len(scope), scope.indices(Category.ANNOTATION))
    named[waiting(scope)] = False
    # Nothing is around the profiler's own time, which is no host event.
    parent = np.append(scope.parent, np.full(len(scope) - scope.hosts, NOBODY))
    while True:
        short = (event != NOBODY) & ((scope.end_ns[event] < end_ns) | ~named[event])
        if not short.any():
            break
        event = np.where(short, parent[event], event)
    other, event = other[event != NOBODY], event[event != NOBODY]
    return found(
        _inferred(2 * event, busy.start[other], EdgeKind.FORK),
        _inferred(busy.end[other], 2 * event + 1, EdgeKind.JOIN),
    )


def thread_starts(
    scope: Scope, timelines: ThreadTimelines, busy: BusyIntervals, explained: Int64s
) -> Found:
    """The main thread started each thread when the trace shows that thread for the first time.

    That is, after the main thread's last point before it, for starting a thread takes a while; if
    the main thread waits already, after it began to.
    """
    new = np.flatnonzero(busy.is_first & (busy.lane != scope.main_lane))
    new = new[~np.isin(busy.start[new], explained)]
    if not len(new):
        return found()
    first_ns = np.full(len(scope.events.lanes), np.iinfo(np.int64).max)
    np.minimum.at(first_ns, scope.events.lane, scope.events.start_ns)
    start_ns = busy.start_ns[new]
    main = np.full(len(new), scope.main_lane, dtype=np.int32)
    segment = timelines.segment_at(main, start_ns - scope.thresholds.woken_ns)
    ran = (segment != NOTHING) & (first_ns[busy.lane[new]] == start_ns)
    return found(_inferred(timelines.tail[segment[ran]], busy.start[new[ran]], EdgeKind.FORK))


def inferred_wakeups(
    scope: Scope, timelines: ThreadTimelines, busy: BusyIntervals, explained: Int64s, rigid: Int64s
) -> Found:
    """From the end of another thread's busy interval to the end of a gap, if every sign agrees.

    The gap is long, lies between events or in a container, and nothing better explains it; the
    other thread worked during the gap, stopped shortly before it ended, and was idle then, too.
    """
    idle = busy.idle & ~busy.wait
    gap = np.flatnonzero(idle)
    gap = gap[~np.isin(timelines.head[gap], explained)]
    first = busy.start[busy.is_first & (busy.lane != scope.main_lane)]
    head = np.concatenate([timelines.head[gap], np.setdiff1d(first, explained)])
    begin_ns = np.full(len(head), scope.window.start_ns)
    begin_ns[: len(gap)] = timelines.start_ns[gap]
    end_ns = timelines.time_ns[head]
    tail = event_index(scope.events.ranks, busy.end, busy.lane, busy.end_ns).last_elsewhere(
        scope.lane[head >> 1], end_ns, np.maximum(begin_ns, end_ns - scope.thresholds.wake_ns - 1)
    )
    head, tail = head[tail != NOTHING], tail[tail != NOTHING]
    on_main = scope.lane[head >> 1] == scope.main_lane
    others = np.flatnonzero(
        idle
        & (timelines.owner == NOBODY)
        & (timelines.lane != scope.main_lane)
        & ~np.isin(timelines.head, rigid)
    )
    return found(
        _inferred(tail[on_main], head[on_main], EdgeKind.JOIN),
        _inferred(tail[~on_main], head[~on_main], EdgeKind.FORK),
        waits=np.concatenate([head, timelines.head[others]]),
    )


def recurring_wakeups(
    scope: Scope, timelines: ThreadTimelines, busy: BusyIntervals, explained: Int64s
) -> Found:
    """From a call of another thread to the end of a pause of the main thread, if always so.

    Threads that hand over work need not stop after it. But where pauses before the same event
    again and again end just after the same call of another thread, they waited for it.
    """
    gap = np.flatnonzero(busy.idle & ~busy.wait & (timelines.lane == scope.main_lane))
    gap = gap[~np.isin(timelines.head[gap], explained)]
    done = np.flatnonzero((scope.depth == 0) & (scope.lane[scope.host] != scope.main_lane))
    done = done[scope.category[done] != Category.PYTHON]
    head, end_ns = timelines.head[gap], timelines.end_ns[gap]
    soon_ns = np.maximum(timelines.start_ns[gap], end_ns - scope.thresholds.wake_ns)
    tail = event_index(
        scope.events.ranks, 2 * done + 1, scope.lane[done], scope.end_ns[done]
    ).last_elsewhere(scope.lane[head >> 1], end_ns, soon_ns)
    late_ns = end_ns - timelines.time_ns[tail]
    tails: list[Int64s] = []
    heads: list[Int64s] = []
    for name in np.unique(scope.name[head >> 1]):
        alike = np.flatnonzero(scope.name[head >> 1] == name)
        known = alike[tail[alike] != NOTHING]
        if len(known) < max(_RECURS, 0.8 * len(alike)):
            continue
        same = len(np.unique(scope.name[tail[known] >> 1])) == 1
        if same and np.ptp(late_ns[known]) <= scope.thresholds.idle_ns / 2:
            tails.append(tail[known])
            heads.append(head[known].astype(np.int64))
    if not tails:
        return found()
    at = np.concatenate(heads)
    return found(_inferred(np.concatenate(tails), at, EdgeKind.JOIN), waits=at)


_RECURS = 4


def _inferred(tail: Int64s, head: Int64s, kind: EdgeKind) -> Edges:
    return edges(tail, head, kind, Class.SYNC_EXIT, tier=Tier.INFERRED)
