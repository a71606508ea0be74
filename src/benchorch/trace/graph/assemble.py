"""Assembly of dependencies to a graph that replays what was observed."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np

from benchorch.trace.arrays import Int8s, Int32s, Int64s
from benchorch.trace.dag import NOBODY, Class, Dag, EdgeKind, Tier
from benchorch.trace.graph.edge_list import Edges, FoundEdges, edges, joined
from benchorch.trace.graph.scope import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines

# By time; of the same time first ends of device work, then points of host threads, then starts of
# device work, for what ended may have let others go on. Threads keep their own order. Where a
# dependency between points of the same time contradicts that, it decides.

# Ranks among points of the same time; what takes no time stands between ends and starts.
_DEVICE_END, _HOST_END, _HOST_INSTANT, _HOST_START, _DEVICE_INSTANT, _DEVICE_START = range(6)
_RANKS = 8


def topological_order(scope: Scope, timelines: ThreadTimelines, parts: Sequence[Edges]) -> Int32s:
    """All points that take part in topological order, source first and sink last."""
    time_ns = timelines.time_ns
    works = np.arange(2 * scope.hosts, 2 * (scope.hosts + scope.works), dtype=np.int32)
    points = np.concatenate([timelines.walk, works])
    key = time_ns[points]
    instant = (scope.start_ns[scope.device] == scope.end_ns[scope.device])[:, None]
    device = np.where(instant, _DEVICE_INSTANT, [_DEVICE_START, _DEVICE_END]).ravel()
    ranks = np.concatenate([_host_ranks(timelines, key), device.astype(np.int8)])
    key -= scope.window.start_ns
    key *= _RANKS
    key += ranks
    ends = np.array([2 * len(scope), 2 * len(scope) + 1], dtype=np.int32)
    points = np.concatenate([ends[:1], points[np.argsort(key, kind="stable")], ends[1:]])
    return _settled(points, time_ns, parts)


def positions(points: Int32s, size: int) -> Int32s:
    """The place of every point in an order, -1 of those that do not take part."""
    place = np.full(size, -1, dtype=np.int32)
    place[points] = np.arange(len(points), dtype=np.int32)
    return place


def _host_ranks(timelines: ThreadTimelines, passed_ns: Int64s) -> Int8s:
    """Ranks of the walk's points; along a thread and within one time they never fall."""
    walk, time_ns = timelines.walk, timelines.time_ns
    rank = np.where(walk & 1, np.int8(_HOST_END), np.int8(_HOST_START))
    stays = np.zeros(len(walk), dtype=np.bool_)
    stays[1:] = passed_ns[1 : len(walk)] == passed_ns[: len(walk)][:-1]
    stays[timelines.first] = False
    tied = np.flatnonzero(stays | np.append(stays[1:], False))  # few: clocks tick fast
    point = walk[tied]
    instant = time_ns[point] == time_ns[point ^ 1]
    base = np.cumsum(~stays[tied]) * _RANKS
    lowest = base + np.where(instant, _HOST_INSTANT, rank[tied])
    rank[tied] = np.maximum.accumulate(lowest) - base
    return rank


def _settled(points: Int32s, time_ns: Int64s, parts: Sequence[Edges]) -> Int32s:
    """The same order where no dependency contradicts it; else those few points change places."""
    if not parts:
        return points
    place = positions(points, len(time_ns))
    instant = [np.flatnonzero(time_ns[one.tail] == time_ns[one.head]) for one in parts]
    tail = np.concatenate([one.tail[at] for one, at in zip(parts, instant, strict=True)])
    head = np.concatenate([one.head[at] for one, at in zip(parts, instant, strict=True)])
    at_ns, tail, head = time_ns[tail], place[tail], place[head]
    wrong = np.unique(at_ns[tail > head])
    if not len(wrong):
        return points
    inner = (tail > 0) & (head < len(points) - 1)  # source and sink keep their places
    inner &= np.isin(at_ns, wrong)
    pairs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    columns = (column[inner].tolist() for column in (at_ns, tail, head))
    for ns, one, other in zip(*columns, strict=True):
        pairs[ns].append((one, other))
    points = points.copy()
    for group in pairs.values():
        at = sorted({place for pair in group for place in pair})
        points[at] = points[_sorted(at, group)]
    return points


def _sorted(places: list[int], pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Places in an order in which the first of each pair comes first, else as they were.

    Those on a circle stay as they were, behind the others: the caller drops their pairs.
    """
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for one, other in pairs:
        sorter.add(other, one)
    with suppress(CycleError):
        sorter.prepare()
    done: list[int] = []
    while ready := sorted(sorter.get_ready()):
        done += ready
        sorter.done(*ready)
    known = set(done)
    return done + [place for place in places if place not in known]


class Wiring(NamedTuple):
    """A graph whose points are in order and whose edges are not."""

    points: dict[str, Any]  # fields of `Dag` but for its edges and residuals
    parts: list[Edges]  # the edges as they were found; `ordered` uses them up
    place: Int32s  # of each of the scope's points its place in the order
    events: Int32s  # the event of each of the scope's, and NOBODY


def assemble(scope: Scope, timelines: ThreadTimelines, found: Sequence[FoundEdges]) -> Wiring:
    """All that was found, and the points that it is about in their final order."""
    repairs = Counter(dict(scope.repairs))
    facts = dict(scope.facts)
    for one in found:
        repairs.update(one.repairs)
        facts.update(one.facts)
    parts = [one.edges for one in found if len(one.edges)]
    points = topological_order(scope, timelines, parts)
    event = np.append(scope.event, [NOBODY]).astype(np.int32)
    inner = points < 2 * len(scope)
    local = np.where(inner, points >> 1, len(scope))
    columns = {
        "time_ns": timelines.time_ns[points],
        "event": event[local],
        "lane": np.append(scope.lane, NOBODY).astype(np.int32)[local],
        "is_end": (inner & (points & 1 == 1)).astype(np.bool_),
    }
    others = {"window": scope.window, "facts": facts, "repairs": repairs}
    place = positions(points, len(timelines.time_ns))
    return Wiring(points={**columns, **others}, parts=parts, place=place, events=event)


def _wired(wiring: Wiring) -> tuple[Edges, int]:
    """The edges between ordered points, and how many would have gone back in time."""
    points, place, parts = len(wiring.points["time_ns"]), wiring.place, wiring.parts
    found = sum(map(len, parts))
    kept: list[Edges] = []
    while parts:  # one at a time: what was found is gone when the next is placed
        part = parts.pop(0)
        part = replace(part, tail=place[part.tail], head=place[part.head])
        kept.append(part.kept(part.tail < part.head))
    whole = joined([*kept, *_ends(points, kept)])
    owner = wiring.events[whole.owner]  # NOBODY is the last one
    return replace(whole, owner=owner), found - sum(map(len, kept))


def _ends(points: int, parts: Sequence[Edges]) -> tuple[Edges, Edges]:
    """From the source to what nothing comes before, and to the sink from what nothing follows."""
    led, leading = np.zeros(points, dtype=np.bool_), np.zeros(points, dtype=np.bool_)
    for part in parts:
        led[part.head] = True
        leading[part.tail] = True
    led[0] = leading[-1] = True
    orphans = np.flatnonzero(~led)
    leading[0] = True
    last = np.flatnonzero(~leading)
    if len(last):  # they lead to the sink
        orphans = orphans[orphans != points - 1]
    unexplained = EdgeKind.BOUNDARY, Class.UNEXPLAINED
    from_source = edges(np.zeros(len(orphans)), orphans, *unexplained, Tier.UNEXPLAINED)
    return from_source, edges(last, np.full(len(last), points - 1), *unexplained)


def _by_head(head: Int32s, points: int) -> tuple[Int32s, Int64s]:
    """The stable order of edges by head, most of which have one; and where heads begin."""
    count = np.bincount(head, minlength=points)
    begins = np.cumsum(count) - count
    order = np.empty(len(head), dtype=np.int32)
    order[begins[head]] = np.arange(len(head), dtype=np.int32)
    others = np.flatnonzero((count > 1)[head])
    places = np.repeat(count > 1, count)  # of the edges of heads that have several
    order[places] = others[np.argsort(head[others], kind="stable")]
    return order, begins


def ordered(wiring: Wiring) -> Dag:
    """Graph with edges in their final order; weights at most the elapsed time, residuals the rest.

    Dependencies that would go back in time are dropped and counted.
    """
    times_ns = wiring.points["time_ns"]
    points = len(times_ns)
    parts, backward = _wired(wiring)
    by_head, begins = _by_head(parts.head, points)
    columns = {one.name: getattr(parts, one.name) for one in fields(parts)}
    del parts
    for name in columns:  # one at a time: the column as it was found is gone before the next
        columns[name] = columns[name][by_head]
    tail_ns = times_ns[columns["tail"]]
    weight_ns = np.minimum(columns["weight_ns"], times_ns[columns["head"]] - tail_ns)
    residual_ns = np.zeros(points, dtype=np.int64)
    residual_ns[1:] = times_ns[1:] - np.maximum.reduceat(tail_ns + weight_ns, begins[1:])
    if backward:
        wiring.points["repairs"]["backward_edges"] += backward
    columns["weight_ns"] = weight_ns
    return Dag(**wiring.points, **columns, residual_ns=residual_ns)
