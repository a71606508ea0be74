"""Assembly of dependencies to a graph that replays what was observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import NOBODY, Class, Dag, EdgeKind, Tier, Window
from benchorch.trace.graph.edge_list import Edges, Found, edges, joined
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines
from benchorch.trace.graph.topological_order import positions, topological_order


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """A graph whose points are in order and whose edges are not; columns of points as of a `Dag`.

    Attributes:
        parts: the edges as they were found; `ordered` uses them up.
        place: of each of the scope's points its place in the order.
        events: the event of each of the scope's, and NOBODY.
    """

    time_ns: NDArray[np.int64]
    event: NDArray[np.int32]
    lane: NDArray[np.int32]
    is_end: NDArray[np.bool_]
    parts: list[Edges]
    place: NDArray[np.int32]
    events: NDArray[np.int32]
    window: Window
    facts: Mapping[str, float]
    repairs: Mapping[str, int]


def assemble(scope: Scope, timelines: ThreadTimelines, found: Sequence[Found]) -> Wiring:
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
    return Wiring(
        time_ns=timelines.time_ns[points],
        event=event[local],
        lane=np.append(scope.lane, NOBODY).astype(np.int32)[local],
        is_end=(inner & (points & 1 == 1)).astype(np.bool_),
        parts=parts,
        place=positions(points, len(timelines.time_ns)),
        events=event,
        window=scope.window,
        facts=facts,
        repairs=repairs,
    )


def _wired(wiring: Wiring) -> tuple[Edges, int]:
    """The edges between ordered points, and how many would have gone back in time."""
    points, place, parts = len(wiring.time_ns), wiring.place, wiring.parts
    found = sum(map(len, parts))
    placed = (replace(part, tail=place[part.tail], head=place[part.head]) for part in parts)
    kept = [part.kept(part.tail < part.head) for part in placed]
    parts.clear()
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
    from_source = edges(
        np.zeros(len(orphans)),
        orphans,
        kind=EdgeKind.BOUNDARY,
        tier=Tier.UNEXPLAINED,
        label=Class.UNEXPLAINED,
    )
    to_sink = edges(
        last, np.full(len(last), points - 1), kind=EdgeKind.BOUNDARY, label=Class.UNEXPLAINED
    )
    return from_source, to_sink


def _by_head(head: NDArray[np.int32], points: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order of edges by head, those of the same head as they come; and where heads begin.

    Most heads have one edge, whose place follows from how many edges come before: only the others
    need sorting.
    """
    count = np.bincount(head, minlength=points)
    begins = np.cumsum(count) - count
    order = np.empty(len(head), dtype=np.int64)
    order[begins[head]] = np.arange(len(head))
    others = np.flatnonzero((count > 1)[head])
    places = np.repeat(count > 1, count)  # of the edges of heads that have several
    order[places] = others[np.argsort(head[others], kind="stable")]
    return order, begins


def ordered(wiring: Wiring) -> Dag:
    """With edges in their final order; weights at most what passed, residuals the rest.

    Dependencies that would go back in time are dropped and counted. Points that nothing is known
    to come before come after the source; those that nothing comes after, before the sink.
    """
    times_ns, points = wiring.time_ns, len(wiring.time_ns)
    parts, backward = _wired(wiring)
    by_head, begins = _by_head(parts.head, points)
    head, tail = parts.head[by_head], parts.tail[by_head]
    tail_ns = times_ns[tail]
    weight_ns = np.minimum(parts.weight_ns[by_head], times_ns[head] - tail_ns)
    residual_ns = np.zeros(points, dtype=np.int64)
    residual_ns[1:] = times_ns[1:] - np.maximum.reduceat(tail_ns + weight_ns, begins[1:])
    return Dag(
        time_ns=times_ns,
        event=wiring.event,
        lane=wiring.lane,
        is_end=wiring.is_end,
        residual_ns=residual_ns,
        tail=tail,
        head=head,
        weight_ns=weight_ns,
        kind=parts.kind[by_head],
        tier=parts.tier[by_head],
        label=parts.label[by_head],
        owner=parts.owner[by_head],
        window=wiring.window,
        facts=wiring.facts,
        repairs={**wiring.repairs, **({"backward_edges": backward} if backward else {})},
    )
