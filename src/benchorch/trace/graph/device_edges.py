"""Edges of device work: its duration, its launch, its order on streams, its collectives."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.arrays import Int8s, Int64s, mask, scattered
from benchorch.trace.dag import CLASSES, NOBODY, Class, EdgeKind, Tier
from benchorch.trace.events import GRAPH_LAUNCH, NOTHING, Category
from benchorch.trace.graph.edge_list import Edges, FoundEdges, edges
from benchorch.trace.graph.scope import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines
from benchorch.trace.lookup import by_lane, latest_so_far, longest
from benchorch.trace.ranks import meetings

_MOST_RANKS = 16  # of a collective, those that come last, for which all others wait
_QUANTILE = 0.05  # of the samples for a floor; the minimum may be a clock error
_CODES = (CLASSES.index(Class.GPU_COMM), CLASSES.index(Class.CPU_COMM))


def collective_parts(scope: Scope) -> tuple[Int64s, Int64s, Int64s]:
    """Participants of a scope's collectives: index into the scope, meeting, transfer time."""
    collectives = meetings(scope.events)
    place = scattered(len(scope.events) + 1, scope.event, np.arange(len(scope)))
    part = place[collectives.event]
    inside = part != NOTHING
    return part[inside], collectives.meeting[inside], collectives.transfer_ns[inside]


def collectives(scope: Scope, timelines: ThreadTimelines) -> FoundEdges:
    """From the start of each rank's part to where every other's has the data, when it moved.

    Of very many ranks, from those that come last.
    """
    part, meeting, transfer_ns = collective_parts(scope)
    if not len(part):
        return FoundEdges()
    done = _received(scope, timelines, part)
    host, most = part < scope.hosts, int(meeting.max()) + 1
    last_ns, first_ns = np.zeros(most, dtype=np.int64), np.full(most, 1 << 62)
    np.maximum.at(last_ns, meeting, scope.start_ns[part])
    np.minimum.at(first_ns, meeting, timelines.time_ns[done])
    transfer_ns = np.where(host, np.maximum(first_ns - last_ns, 0)[meeting], transfer_ns)
    tails, heads = [part[:0]], [part[:0]]
    order = np.argsort(meeting, kind="stable")
    for same in np.split(order, np.flatnonzero(np.diff(meeting[order])) + 1):
        if len(same) > 1:
            latest = same[np.argsort(scope.start_ns[part[same]], kind="stable")[-_MOST_RANKS:]]
            one, other = np.meshgrid(latest, same)
            apart = one != other
            tails.append(one[apart])
            heads.append(other[apart])
    tail, head = np.concatenate(tails), np.concatenate(heads)
    if not len(tail):
        return FoundEdges()
    label = np.where(host[head], _CODES[1], _CODES[0]).astype(np.int8)
    moved = Tier.SEMANTIC, transfer_ns[head], part[head]
    met = edges(2 * part[tail], done[head], EdgeKind.SYNC, label, *moved)
    return FoundEdges(met, waits=done[host], floor_ns=transfer_ns[host])


def _received(scope: Scope, timelines: ThreadTimelines, part: Int64s) -> Int64s:
    """The point at which each part has its data: on a host the end of its longest own segment."""
    done = 2 * part + 1
    own = np.flatnonzero(np.isin(timelines.owner, part[part < scope.hosts]))
    own = own[longest(timelines.owner[own], timelines.elapsed_ns[own])]
    place = scattered(len(scope), timelines.owner[own], timelines.head[own])
    return np.where(place[part] != NOTHING, place[part], done)


class Fitted(NamedTuple):
    """What starting work costs at the least, of each piece of device work; shape ``(works,)``."""

    work: Int64s  # indices into the scope
    # the work on the same stream that ends last of all that started earlier, NOTHING for a stream's
    # first
    before: Int64s
    launch_ns: Int64s  # from a host call to work on an idle stream
    gap_ns: Int64s  # between work and the next that was already waiting


def fitted(scope: Scope, delayed: Int64s) -> Fitted:
    """5th-percentile floors by device, of launches by function, without `delayed` work."""
    work = scope.device_work
    before = latest_so_far(scope.lane[work], scope.end_ns[work], strictly=True)
    before = np.where(before != NOTHING, work[before], NOTHING) if len(work) else work
    follows = before != NOTHING
    call = scope.launch[work]
    launched = call != NOTHING
    called_ns = np.where(launched, scope.start_ns[call] if len(scope) else 0, scope.window.start_ns)
    latency_ns = scope.start_ns[work] - called_ns
    ended_ns = np.where(follows, scope.end_ns[before], scope.window.start_ns)
    gap_ns = scope.start_ns[work] - ended_ns
    numbers, place = np.unique(scope.events.devices, return_inverse=True)
    device, devices = place[scope.lane[work]], len(numbers)
    free = ~mask(len(work), delayed - scope.hosts)
    by_start = np.argsort(scope.start_ns[work], kind="stable")
    # What else a graph's launch starts waits for the first.
    idle = mask(len(work), by_start[np.unique(call[by_start], return_index=True)[1]])
    idle &= free & launched & (ended_ns <= called_ns) & (latency_ns >= 0)
    queued = free & follows & (called_ns < ended_ns) & (gap_ns >= 0)
    names = len(scope.events.names)
    function = device * (names + 1) + np.where(launched, scope.name[call], names)
    by_device = percentile_floors(latency_ns[idle], device[idle], devices)
    functions = devices * (names + 1)
    by_function = percentile_floors(latency_ns[idle], function[idle], functions, NOTHING)[function]
    floor_ns = percentile_floors(gap_ns[queued], device[queued], devices)
    # Where even the shortest gap is long, streams waited for each other.
    floor_ns = np.where(floor_ns > scope.thresholds.stalled_ns, 0, floor_ns)
    return Fitted(
        work=work,
        before=before,
        launch_ns=np.where(by_function != NOTHING, by_function, by_device[device]),
        gap_ns=floor_ns[device],
    )


def device_edges(scope: Scope, fit: Fitted, label: Int8s) -> FoundEdges:
    """Work takes its time, comes after its launch, and after what is before it on its stream."""
    work = fit.work
    took_ns = scope.end_ns[work] - scope.start_ns[work]
    part, _, transfer_ns = collective_parts(scope)
    on_device = part >= scope.hosts
    took_ns[part[on_device] - scope.hosts] = transfer_ns[on_device]  # the rest is waiting
    launched, carried = scope.launch[work] != NOTHING, scope.carried[work]
    facts = {}
    if launched.any():
        facts["launch_latency_ns"] = float(np.median(fit.launch_ns[launched]))
        facts["stream_gap_ns"] = float(np.median(fit.gap_ns))
    unlaunched = int((~launched & ~carried).sum())
    labels = np.where(carried, CLASSES.index(Class.CARRY_IN), label[work])
    launch = edges(
        *(2 * scope.launch[work[launched]], 2 * work[launched], EdgeKind.LAUNCH),
        *(Class.LAUNCH_LATENCY, Tier.RECORDED, fit.launch_ns[launched]),
    )
    return FoundEdges(
        edges(2 * work, 2 * work + 1, EdgeKind.WORK, labels, Tier.RECORDED, took_ns, work),
        launch,
        _streams(scope, fit, took_ns, labels),
        _carried(scope, fit),
        facts=facts,
        repairs={"unlaunched_work": unlaunched} if unlaunched else {},
    )


def _streams(scope: Scope, fit: Fitted, took_ns: Int64s, labels: Int8s) -> Edges:
    """After the work before it on its stream; where that still ran, after that had started.

    Gaps inside of one launched graph are its own, and take as long as they did. Queued work that
    begins in the second half of what is before it, as in programmatic dependent launches, comes
    after that much of it.
    """
    follows = fit.before != NOTHING
    work, last, gap_ns = fit.work[follows], fit.before[follows], fit.gap_ns[follows]
    over_ns = scope.end_ns[last] - scope.start_ns[work]
    beside = over_ns > 0
    label = np.full(len(work), CLASSES.index(Class.STREAM_GAP), dtype=np.int8)
    graphs = scope.matches(GRAPH_LAUNCH, scope.launch[work], Category.RUNTIME)
    own = ((scope.graph_node[work] != NOTHING) | graphs) & (scope.launch[work] != NOTHING) & ~beside
    own &= scope.launch[work] == scope.launch[last]
    if own.any():
        label[own] = CLASSES.index(Class.GRAPH_GAP)
        gap_ns[own] = _since_launched(scope, work[own])
    previous, call = work - 1, scope.launch[work]
    before_ns = took_ns[last - scope.hosts]
    early = beside & (previous == last) & (2 * over_ns < before_ns) & (call != NOTHING)
    early &= scope.start_ns[call] + fit.launch_ns[follows] < scope.start_ns[work]
    label[early] = labels[last - scope.hosts][early]
    apart = (previous != last) & (scope.end_ns[previous] <= scope.start_ns[work])
    tail = np.concatenate([np.where(beside, 2 * previous, 2 * last + 1), 2 * previous[apart] + 1])
    known = np.append(label, label[apart]), Tier.SEMANTIC
    gap_ns = np.where(beside, np.where(early, before_ns - over_ns, 0), gap_ns)
    held_ns = np.append(gap_ns, gap_ns[apart])
    owner = np.append(np.where(early, last, NOBODY), np.full(apart.sum(), NOBODY))
    return edges(tail, 2 * np.append(work, work[apart]), EdgeKind.STREAM, *known, held_ns, owner)


def _since_launched(scope: Scope, work: Int64s) -> Int64s:
    """Time since anything else that the same call launched, on whatever stream, ended."""
    every = scope.device_work
    order = every[np.lexsort((scope.end_ns[every], scope.launch[every]))]
    columns = scope.launch[order], scope.end_ns[order], scope.launch[work], scope.start_ns[work]
    return scope.start_ns[work] - scope.end_ns[order[by_lane(*columns, "right") - 1]]


def _carried(scope: Scope, fit: Fitted) -> Edges:
    """From the source to work that was launched before the window; a stream's first lies fixed."""
    carried = scope.carried[fit.work]
    work, first = fit.work[carried], fit.before[carried] == NOTHING
    source = np.full(len(work), 2 * len(scope))
    since_ns = np.where(first, scope.start_ns[work] - scope.window.start_ns, 0)
    known = Class.CARRY_IN, Tier.RECORDED, since_ns
    return edges(source, 2 * work, EdgeKind.CARRY_IN, *known)


def stream_edges(scope: Scope, work: Int64s, then: Int64s, tier: Tier, fit: Fitted) -> Edges:
    """From the end of each piece of work to the start of another; pairs of shape ``(n,)``."""
    gap_ns = fit.gap_ns[then - scope.hosts]
    return edges(2 * work + 1, 2 * then, EdgeKind.SYNC, Class.STREAM_GAP, tier, gap_ns)


def percentile_floors(
    values_ns: Int64s, group: NDArray[np.integer], groups: int, missing_ns: int = 0
) -> Int64s:
    """The fifth percentile of each group's samples, (groups,) in ns; `missing_ns` without any.

    An observed value, never one in between; of one or two samples the least.
    """
    floor = np.full(groups, missing_ns, dtype=np.int64)
    order = np.lexsort((values_ns, group))
    values_ns, group = values_ns[order], group[order]
    known, first, count = np.unique(group, return_index=True, return_counts=True)
    floor[known] = values_ns[first + ((count - 1) * _QUANTILE).astype(np.int64)]
    return floor
