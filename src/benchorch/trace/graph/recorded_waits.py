"""Edges of waits that a program records, in ranges called ``wait:<what>``.

The main thread waits for results: for the end of another thread's busy interval, else of its
outermost range or operator, else of any. Other threads wait for something to do: for whatever the
main thread had just done, if it was not idle itself, else as the main thread does. What ended
shortly before is preferred to what ended earlier. What ended before the wait began was not waited
for; `match_fifo` finds what would have been.
"""

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from benchorch.trace.arrays import Bools, Int8s, Int32s, Int64s, mask, scattered
from benchorch.trace.dag import CLASSES, NOBODY, Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.edge_list import FoundEdges, edges
from benchorch.trace.graph.scope import Scope
from benchorch.trace.graph.thread_timelines import BusyIntervals, ThreadTimelines
from benchorch.trace.graph.time_classes import SLEEPING, waiting
from benchorch.trace.lookup import by_lane, longest

# The k-th item taken from a queue is the k-th that was put there. Where those waits of a thread
# that did wait show what they waited for, and that is something another thread does as often and in
# the same order, the others belong to those of its events that no thread was observed to wait for.
_NUMBER = re.compile(r"\d+")
_MANY_POLLS = 3


def match_fifo(
    scope: Scope, timelines: ThreadTimelines, range_: Int64s, tail: Int64s, busy: BusyIntervals
) -> Int64s:
    """The point that each of (w,) ranges would have waited for, where it is clear; else NOTHING."""
    found = np.full(len(range_), NOTHING, dtype=np.int64)
    if not (tail == NOTHING).any() or (tail == NOTHING).all():
        return found
    produced = _produced(scope, timelines, tail)
    key = scope.lane[range_] * np.int64(len(scope.events.names)) + scope.name[range_]
    for one in np.unique(key[tail != NOTHING]):
        these = np.flatnonzero(key == one)
        known = np.flatnonzero(tail[these] != NOTHING)
        if len(known) == len(these):
            continue
        for alike in _alike(scope, timelines.time_ns, produced[these[known]], busy):
            match = _in_order(known, produced[these[known]], len(these), alike)
            if match is None or (timelines.time_ns[match] > scope.end_ns[range_[these]]).any():
                continue
            found[these] = np.where(tail[these] == NOTHING, match, NOTHING)
            break
    return found


def _produced(scope: Scope, timelines: ThreadTimelines, tail: Int64s) -> Int64s:
    """What was done last at each of some points: where something begins, what ended before it."""
    before = scattered(2 * len(scope) + 1, timelines.head, timelines.tail)
    working = np.ones(len(scope), dtype=np.bool_)
    working[waiting(scope)] = False
    earlier = before[tail]
    ended = (tail != NOTHING) & (tail & 1 == 0) & (earlier & 1 == 1) & working[earlier >> 1]
    return np.where(ended & (earlier != NOTHING), earlier, tail)


def _alike(scope: Scope, time_ns: Int64s, points: Int64s, busy: BusyIntervals) -> Iterator[Int64s]:
    """All points of one thread like some: ends of busy intervals, or of what is called alike."""
    lanes = np.unique(scope.lane[points >> 1])
    if len(lanes) > 1 or len(np.unique(points & 1)) > 1:
        return
    if np.isin(points, busy.end).all():
        yield busy.end[busy.lane == lanes[0]]
    names = [_NUMBER.sub("*", name) for name in scope.events.names]
    called = {names[name] for name in scope.name[points >> 1].tolist()}
    if len(called) == 1:
        same = np.array([name in called for name in names])
        event = np.flatnonzero(same[scope.name] & (scope.lane == lanes[0]))
        point = 2 * event + (points[0] & 1)
        yield point[np.argsort(time_ns[point], kind="stable")]


def _in_order(known: Int64s, points: Int64s, waits: int, alike: Int64s) -> Int64s | None:
    """For so many waits the point of each; None where the known ones disagree or are too few."""
    place: dict[int, int] = {point: at for at, point in enumerate(alike.tolist())}
    places = np.array([place.get(point, NOTHING) for point in points.tolist()])
    shift = int(places[0] - known[0])
    agreed = (places != NOTHING).all() and (places - known == shift).all()
    certain = len(known) > 1 or (len(alike) == waits and shift == 0)
    inside = 0 <= shift <= len(alike) - waits
    return alike[shift + np.arange(waits)] if agreed and certain and inside else None


def recorded_waits(
    scope: Scope, timelines: ThreadTimelines, label: Int8s, busy: BusyIntervals
) -> FoundEdges:
    """From what was waited for to the wait's end; inferred where it could be one of several.

    What is longer than waking up takes stays unexplained. A long wait for nothing in the trace is
    *outside*, or loads data; a short one found ready what it requested.
    """
    segment = np.flatnonzero(busy.wait)
    if not len(segment):
        return FoundEdges()
    range_ = timelines.owner[segment].astype(np.int64)
    end_ns = scope.end_ns[range_]
    tail = _targets(scope, timelines, range_, busy)
    match = match_fifo(scope, timelines, range_, tail, busy)
    known, ready = tail != NOTHING, match != NOTHING
    loading = label[range_] == CLASSES.index(Class.DATA_LOADING)
    short = end_ns - scope.start_ns[range_] <= scope.thresholds.idle_ns
    # What is waited for is none of the trace's: another process, a thread that is not recorded.
    label[range_[~(known | loading | short)]] = CLASSES.index(Class.OUTSIDE)
    head = timelines.head[segment]
    woke_ns = end_ns - timelines.time_ns[tail]
    woke_ns = np.where(known & (woke_ns <= scope.thresholds.wake_ns), woke_ns, 0)
    tier = np.where(_rivals(scope, range_, tail, busy), Tier.INFERRED, Tier.RECORDED)
    woken = tier.astype(np.int8)[known], woke_ns[known], range_[known]
    wait = EdgeKind.WAIT, Class.SYNC_EXIT
    return FoundEdges(
        edges(tail[known], head[known], *wait, *woken),
        edges(match[ready], head[ready], *wait, Tier.INFERRED, owner=range_[ready]),
        waits=head[known],
        floor_ns=np.minimum(woke_ns, timelines.elapsed_ns[segment])[known],
    )


def _targets(
    scope: Scope, timelines: ThreadTimelines, range_: Int64s, busy: BusyIntervals
) -> Int64s:
    event = np.flatnonzero(~mask(scope.hosts, waiting(scope)))
    on_main = event[scope.lane[event] == scope.main_lane]
    lane, start_ns, end_ns = scope.lane[range_], scope.start_ns[range_], scope.end_ns[range_]
    woken_ns = end_ns - scope.thresholds.woken_ns
    at = timelines.segment_at(np.full(len(range_), scope.main_lane), woken_ns)
    at_work = (lane != scope.main_lane) & (at != NOTHING) & ~busy.idle[at]
    done = np.concatenate([2 * on_main, 2 * on_main + 1])
    tail = np.where(at_work, scope.last_elsewhere(done, lane, woken_ns, start_ns), NOTHING)
    outermost = event[scope.depth[event] == 0]
    candidates = (busy.end, end_ns), (2 * outermost + 1, end_ns), (2 * event + 1, woken_ns)
    soon_ns = np.maximum(start_ns, end_ns - scope.thresholds.wake_ns - 1)
    for after_ns in (soon_ns, start_ns):
        for ends, until_ns in candidates:
            last = scope.last_elsewhere(ends, lane, until_ns, after_ns)
            tail = np.where(tail == NOTHING, last, tail)
    return tail


def _rivals(scope: Scope, range_: Int64s, tail: Int64s, busy: BusyIntervals) -> Bools:
    """Where a third thread's busy interval ended shortly before, too, or went on: it may be it."""
    lane, until_ns = scope.lane[range_], scope.end_ns[range_]
    chosen = scope.lane[tail >> 1]
    ranks = scope.events.ranks
    rivals = np.zeros(len(tail), dtype=np.bool_)
    for other in np.unique(busy.lane):
        on = busy.lane == other
        at = np.searchsorted(busy.start_ns[on], until_ns) - 1
        worked = (at >= 0) & (busy.end_ns[on][at] > until_ns - scope.thresholds.wake_ns)
        rivals |= worked & (lane != other) & (chosen != other) & (ranks[lane] == ranks[other])
    return rivals


_RELEASE = re.compile(r"(?:__exit__|release) of _thread\.(?:RL|l)ock object")


def held_locks(scope: Scope, timelines: ThreadTimelines) -> FoundEdges:
    """From the release of a lock to the end of the pause in which another thread waited for it.

    That is a pause in a function that itself releases a lock next, if another thread released one
    meanwhile: the last that did. The name of the same lock on both is no sign, and another's none
    against it: a profiler names a method by the first object of which a thread called it.
    """
    release = scope.named(_RELEASE, Category.PYTHON)
    if not len(release):
        return FoundEdges()
    releases = (timelines.owner != NOBODY) & np.isin(timelines.owner, scope.parent[release])
    gap = np.flatnonzero(releases & (timelines.elapsed_ns > scope.thresholds.idle_ns))
    order = np.lexsort((scope.start_ns[release], scope.parent[release]))
    parent, next_ns = scope.parent[release][order], scope.start_ns[release][order]
    at = by_lane(parent, next_ns, timelines.owner[gap], timelines.end_ns[gap])
    at = np.minimum(at, len(order) - 1)
    own = (parent[at] == timelines.owner[gap]) & (next_ns[at] >= timelines.end_ns[gap])
    gap = gap[own]
    when = timelines.end_ns[gap], timelines.start_ns[gap]
    tail = scope.last_elsewhere(2 * release + 1, timelines.lane[gap], *when)
    tail, head = tail[tail != NOTHING], timelines.head[gap[tail != NOTHING]]
    woke_ns = timelines.time_ns[head] - timelines.time_ns[tail]
    return lasting(timelines, tail, head, Class.LOCK, floor_ns=woke_ns)


def lasting(
    timelines: ThreadTimelines,
    tail: Int64s,
    head: Int32s,
    label: Class,
    owner: ArrayLike = NOBODY,
    tier: Tier = Tier.SEMANTIC,
    floor_ns: ArrayLike = 0,
) -> FoundEdges:
    """Waits that end so long after something as they did, whatever else changes."""
    took_ns = timelines.time_ns[head] - timelines.time_ns[tail]
    waited = edges(tail, head, EdgeKind.WAIT, label, tier, took_ns, owner)
    return FoundEdges(waited, waits=head, floor_ns=floor_ns)


_CALL = re.compile(r"_MultiProcessingDataLoaderIter\.__next__")
_AWAITS = re.compile(r"of select\.|acquire of |of _queue\.")


def loaded_elsewhere(scope: Scope, timelines: ThreadTimelines) -> FoundEdges:
    """When each batch that was waited for was ready, counted from the beginning.

    Worker processes need the same time for a batch whatever becomes faster here: they wait for
    the program only if it is the slower one, and then it does not wait for them.
    """
    call = scope.named(_CALL, Category.ANNOTATION, Category.OTHER)
    if not len(call):
        return FoundEdges()
    waits = mask(len(scope) + 1, scope.named(_AWAITS, Category.PYTHON))  # the last one is NOBODY's
    if not waits.any():
        waits[call] = True
    within = np.searchsorted(call, timelines.owner, side="right") - 1
    inside = waits[timelines.owner] & (within >= 0) & (timelines.owner < scope.after[call[within]])
    inside &= timelines.elapsed_ns > scope.thresholds.idle_ns
    segment = np.flatnonzero(inside)
    segment = segment[longest(within[segment], timelines.elapsed_ns[segment])]  # of each call
    head, source = timelines.head[segment], np.full(len(segment), 2 * len(scope))
    return lasting(timelines, source, head, Class.DATA_LOADING, call[within[segment]])


def handed_outside(
    scope: Scope, timelines: ThreadTimelines, busy: BusyIntervals, label: Int8s
) -> FoundEdges:
    """From what threads last did to the end of a wait for a process outside, if all wait meanwhile.

    A thread that reads others' results waits before they get the work, which lasts from then on.
    """
    codes = [CLASSES.index(one) for one in (Class.OUTSIDE, Class.INPUT_OUTPUT)]
    waits = np.append(np.isin(label, codes), False)[timelines.owner]
    waits &= timelines.elapsed_ns > scope.thresholds.wake_ns
    segment = np.flatnonzero(waits & (timelines.lane != scope.main_lane))
    woken_ns = timelines.end_ns[segment] - scope.thresholds.woken_ns
    main = timelines.segment_at(np.full(len(segment), scope.main_lane), woken_ns)
    segment = segment[(main != NOTHING) & busy.idle[main]]
    when = timelines.end_ns[segment] - scope.thresholds.wake_ns, timelines.start_ns[segment]
    tail = scope.last_elsewhere(busy.end, timelines.lane[segment], *when)
    segment, tail = segment[tail != NOTHING], tail[tail != NOTHING]
    head, owner = timelines.head[segment], timelines.owner[segment]
    return lasting(timelines, tail, head, Class.OUTSIDE, owner, Tier.INFERRED)


def polled(scope: Scope, timelines: ThreadTimelines, busy: BusyIntervals) -> FoundEdges:
    """From what another thread finished to the end of the sleeps in which it was polled for.

    That is where it stops during the last of the sleeps of a function that sleeps repeatedly.
    """
    sleep = scope.named(SLEEPING, Category.PYTHON)
    sleep = sleep[scope.after[sleep] == sleep + 1]
    runs = np.split(sleep, np.flatnonzero(np.diff(scope.parent[sleep])) + 1)
    runs = [one for one in runs if len(one) >= _MANY_POLLS]
    last = np.array([one[-1] for one in runs], dtype=np.int64)
    since_ns = scope.start_ns[last] - scope.thresholds.idle_ns
    tail = scope.last_elsewhere(busy.end, scope.lane[last], scope.end_ns[last], since_ns)
    known = tail != NOTHING
    first = np.array([one[0] for one in runs], dtype=np.int64)[known]
    tail, head = tail[known], 2 * last[known] + 1
    woke_ns = timelines.time_ns[head] - timelines.time_ns[tail]
    asleep = EdgeKind.JOIN, Class.SLEEP, Tier.INFERRED
    # How often it sleeps until then is of no matter.
    several = edges(tail, head, *asleep, woke_ns), edges(2 * first, head, *asleep)
    return FoundEdges(*several, cuts=head)


_SUBMIT, _RUN, _RESULT = (
    re.compile(rf"concurrent[/\\]futures[/\\]{file}\.py\(\d+\): {function}$")
    for file, function in (("thread", "submit"), ("thread", "run"), ("_base", "result"))
)


def pool_results(scope: Scope) -> FoundEdges:
    """From the ends of tasks of a pool of threads to the call that returns the last result of them.

    Tasks begin in the order in which they were submitted. Who has called for as many results as it
    submitted tasks has them all, whether it waited for each or not.
    """
    submit, run, result = (
        these[np.argsort(scope.start_ns[these], kind="stable")]
        for these in (scope.named(one, Category.PYTHON) for one in (_SUBMIT, _RUN, _RESULT))
    )
    count = min(len(submit), len(run))
    submit, run = submit[:count], run[:count]
    if not count or (scope.start_ns[run] < scope.start_ns[submit]).any():
        return FoundEdges()
    tail, head = [run[:0]], [run[:0]]
    for lane in np.unique(scope.lane[submit]):
        given = scope.start_ns[submit]
        mine = scope.lane[submit] == lane
        calls = result[scope.lane[result] == lane]
        open_ = np.searchsorted(given[mine], scope.start_ns[calls]) - np.arange(1, len(calls) + 1)
        if (open_ < 0).any():
            continue  # somebody else's tasks, or a result that was asked for twice
        all_ = calls[open_ == 0]
        at = np.searchsorted(scope.start_ns[all_], given[mine])
        done = run[mine][at < len(all_)]
        by = all_[at[at < len(all_)]]
        in_time = scope.end_ns[done] <= scope.end_ns[by]
        tail.append(done[in_time])
        head.append(by[in_time])
    task, by = np.concatenate(tail), np.concatenate(head)
    return FoundEdges(
        edges(2 * task + 1, 2 * by + 1, EdgeKind.JOIN, Class.SYNC_EXIT, Tier.SEMANTIC)
    )
