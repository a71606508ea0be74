"""Edges of device work: its duration, its launch, its order on streams, its collectives."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.arrays import Bools, Int8s, Int64s, mask, scattered
from benchorch.trace.dag import CLASSES, Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING
from benchorch.trace.graph.edge_list import Edges, Found, edges, found
from benchorch.trace.graph.scope import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines
from benchorch.trace.lookup import latest_so_far
from benchorch.trace.ranks import meetings

_MOST_RANKS = 16
_CODES = (CLASSES.index(Class.GPU_COMM), CLASSES.index(Class.CPU_COMM))


def collective_parts(scope: Scope) -> tuple[Int64s, Int64s, Int64s]:
    """Participants of a scope's collectives: index into the scope, meeting, transfer time."""
    collectives = meetings(scope.events)
    place = scattered(len(scope.events) + 1, scope.event, np.arange(len(scope)))
    part = place[collectives.event]
    inside = part != NOTHING
    return part[inside], collectives.meeting[inside], collectives.transfer_ns[inside]


def collectives(scope: Scope, timelines: ThreadTimelines) -> Found:
    """From the start of every rank's part to where every other's has the data, when it moved."""
    part, meeting, transfer_ns = collective_parts(scope)
    if not len(part):
        return found()
    done = _received(scope, timelines, part)
    host, most = part < scope.hosts, int(meeting.max()) + 1
    last_ns, first_ns = np.zeros(most, dtype=np.int64), np.full(most, 1 << 62)
    np.maximum.at(last_ns, meeting, scope.start_ns[part])
    np.minimum.at(first_ns, meeting, timelines.time_ns[done])
    transfer_ns = np.where(host, np.maximum(first_ns - last_ns, 0)[meeting], transfer_ns)
    tails, heads = [part[:0]], [part[:0]]
    order = np.argsort(meeting, kind="stable")
    for same in np.split(order, np.flatnonzero(np.diff(meeting[order])) + 1):
        if 1 < len(same) <= _MOST_RANKS:
            one, other = np.meshgrid(same, same)
            apart = one != other
            tails.append(one[apart])
            heads.append(other[apart])
    tail, head = np.concatenate(tails), np.concatenate(heads)
    return found(
        edges(
            2 * part[tail],
            done[head],
            EdgeKind.SYNC,
            np.where(host[head], _CODES[1], _CODES[0]).astype(np.int8),
            tier=Tier.SEMANTIC,
            weight_ns=transfer_ns[head],
            owner=part[head],
        ),
        waits=done[host] if len(tail) else (),
        floor_ns=transfer_ns[host] if len(tail) else 0,
    )


def _received(scope: Scope, timelines: ThreadTimelines, part: Int64s) -> Int64s:
    """The point at which each part has its data: on a host the end of its longest own segment."""
    done = 2 * part + 1
    own = np.flatnonzero(np.isin(timelines.owner, part[part < scope.hosts]))
    own = own[np.lexsort((-timelines.elapsed_ns[own], timelines.owner[own]))]
    own = own[np.diff(timelines.owner[own], prepend=NOTHING) != 0]
    place = scattered(len(scope), timelines.owner[own], timelines.head[own])
    return np.where(place[part] != NOTHING, place[part], done)


_QUANTILE = 0.05  # quantile of the samples for the floor; the minimum may be a clock error


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What starting work costs at the least, of each piece of device work; shape ``(works,)``."""

    work: Int64s  # indices into the scope
    # the work on the same stream that ends last of all that started earlier, NOTHING for a stream's
    # first
    before: Int64s
    launch_ns: Int64s  # from a host call to work on an idle stream
    gap_ns: Int64s  # between work and the next that was already waiting


def fitted(scope: Scope, delayed: Int64s) -> Fitted:
    """5th-percentile floors of the trace: by device, and of launches by the function called.

    Work that events of other streams delayed (`delayed`, its indices) does not count.
    """
    work = np.arange(scope.hosts, scope.hosts + scope.works, dtype=np.int64)
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
    free = np.ones(len(work), dtype=np.bool_)
    free[delayed - scope.hosts] = False
    idle = (
        free
        & launched
        & (ended_ns <= called_ns)
        & (latency_ns >= 0)
        & _first_of_launch(scope, work)
    )
    queued = free & follows & (called_ns < ended_ns) & (gap_ns >= 0)
    names = len(scope.events.names)
    function = device * (names + 1) + np.where(launched, scope.name[call], names)
    by_device = percentile_floors(latency_ns[idle], device[idle], devices)
    functions = devices * (names + 1)
    by_function = percentile_floors(latency_ns[idle], function[idle], functions, NOTHING)[function]
    return Fitted(
        work=work,
        before=before,
        launch_ns=np.where(by_function != NOTHING, by_function, by_device[device]),
        gap_ns=_short(scope, percentile_floors(gap_ns[queued], device[queued], devices))[device],
    )


def _short(scope: Scope, floor_ns: Int64s) -> Int64s:
    """Floors that may be gaps; where even the shortest is long, streams waited for each other."""
    return np.where(floor_ns > scope.thresholds.stalled_ns, 0, floor_ns)


def device_edges(scope: Scope, fit: Fitted, label: Int8s) -> Found:
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
    return found(
        edges(
            2 * work,
            2 * work + 1,
            EdgeKind.WORK,
            np.where(carried, CLASSES.index(Class.CARRY_IN), label[work]),
            weight_ns=took_ns,
            owner=work,
        ),
        _launches(scope, fit),
        _streams(scope, fit),
        _carried(scope, fit),
        facts=facts,
        repairs={"unlaunched_work": unlaunched} if unlaunched else {},
    )


def _launches(scope: Scope, fit: Fitted) -> Edges:
    """From the call's start to the work's, of every piece of work that was launched."""
    launched = scope.launch[fit.work] != NOTHING
    work = fit.work[launched]
    return edges(
        2 * scope.launch[work],
        2 * work,
        EdgeKind.LAUNCH,
        Class.LAUNCH_LATENCY,
        weight_ns=fit.launch_ns[launched],
    )


def _streams(scope: Scope, fit: Fitted) -> Edges:
    """After the work before it on its stream; where that still ran, after that had started."""
    follows = fit.before != NOTHING
    work, last, gap_ns = fit.work[follows], fit.before[follows], fit.gap_ns[follows]
    beside = scope.end_ns[last] > scope.start_ns[work]
    previous = work - 1
    apart = (previous != last) & (scope.end_ns[previous] <= scope.start_ns[work])
    tail = np.concatenate([np.where(beside, 2 * previous, 2 * last + 1), 2 * previous[apart] + 1])
    return edges(
        tail,
        np.concatenate([2 * work, 2 * work[apart]]),
        EdgeKind.STREAM,
        Class.STREAM_GAP,
        tier=Tier.SEMANTIC,
        weight_ns=np.concatenate([np.where(beside, 0, gap_ns), gap_ns[apart]]),
    )


def _carried(scope: Scope, fit: Fitted) -> Edges:
    """From the source to work that was launched before the window; a stream's first lies fixed."""
    carried = scope.carried[fit.work]
    work, first = fit.work[carried], fit.before[carried] == NOTHING
    return edges(
        np.full(len(work), 2 * len(scope)),
        2 * work,
        EdgeKind.CARRY_IN,
        Class.CARRY_IN,
        weight_ns=np.where(first, scope.start_ns[work] - scope.window.start_ns, 0),
    )


def _first_of_launch(scope: Scope, work: Int64s) -> Bools:
    """Where work is the first that its call started: what else a graph starts waits for it."""
    by_start = np.argsort(scope.start_ns[work], kind="stable")
    return mask(len(work), by_start[np.unique(scope.launch[work][by_start], return_index=True)[1]])


def stream_edges(scope: Scope, work: Int64s, then: Int64s, tier: Tier, fit: Fitted) -> Edges:
    """From the end of each piece of work to the start of another; pairs of shape ``(n,)``."""
    return edges(
        2 * work + 1,
        2 * then,
        EdgeKind.SYNC,
        Class.STREAM_GAP,
        tier=tier,
        weight_ns=fit.gap_ns[then - scope.hosts],
    )


def percentile_floors(
    values_ns: Int64s, group: NDArray[np.integer], groups: int, missing_ns: int = 0
) -> Int64s:
    """The fifth percentile of every group's samples, (groups,) in ns.

    An observed value, never one in between; of one or two samples the least. Groups without a
    sample get `missing_ns`.
    """
    floor = np.full(groups, missing_ns, dtype=np.int64)
    order = np.lexsort((values_ns, group))
    values_ns, group = values_ns[order], group[order]
    known, first, count = np.unique(group, return_index=True, return_counts=True)
    floor[known] = values_ns[first + ((count - 1) * _QUANTILE).astype(np.int64)]
    return floor
