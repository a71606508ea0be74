"""From dependencies that were found to a graph that replays what was observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchorch.trace.builder.edges import edges, joined
from benchorch.trace.builder.order import order, positions
from benchorch.trace.dag import NOBODY, Class, Dag, EdgeKind, Tier

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

    from benchorch.trace.builder.chains import Chains
    from benchorch.trace.builder.edges import Edges, Found
    from benchorch.trace.builder.scope import Scope


def times(scope: Scope) -> NDArray[int64]:
    """The time of every point of a scope, then of the source and of the sink, (2n + 2,) in ns."""
    import numpy as np

    time_ns = np.empty(2 * len(scope) + 2, dtype=np.int64)
    time_ns[0:-2:2] = scope.start_ns
    time_ns[1:-2:2] = scope.end_ns
    parts = slice(0, 2 * (scope.hosts + scope.works))
    time_ns[-2] = scope.window.start_ns
    time_ns[-1] = time_ns[parts].max(initial=scope.window.start_ns)
    return time_ns


def assemble(scope: Scope, chains: Chains, time_ns: NDArray[int64], found: Sequence[Found]) -> Dag:
    """The graph of all that was found.

    Dependencies that would go back in time are dropped and counted. Points that nothing is known
    to come before come after the source; those that nothing comes after, before the sink.
    """
    repairs = Counter(dict(scope.repairs))
    facts = dict(scope.facts)
    for one in found:
        repairs.update(one.repairs)
        facts.update(one.facts)
    parts = joined(one.edges for one in found)
    points = order(scope, chains, time_ns, parts)
    place = positions(points, len(time_ns))
    forward = place[parts.tail] < place[parts.head]
    if not forward.all():
        repairs["backward_edges"] += int((~forward).sum())
        parts = parts.kept(forward)
    parts = joined([parts, *_ends(points, place, parts)])
    return _dag(scope, points, place, time_ns, parts, facts, repairs)


def _ends(points: NDArray[int64], place: NDArray[int64], parts: Edges) -> tuple[Edges, Edges]:
    """From the source to what nothing comes before, and to the sink from what nothing follows."""
    import numpy as np

    count = len(points)
    led = np.bincount(place[parts.head], minlength=count)[1:] > 0
    leading = np.bincount(place[parts.tail], minlength=count)[:-1] > 0
    orphans = points[1:][~led]
    from_source = edges(
        np.full(len(orphans), points[0]),
        orphans,
        kind=EdgeKind.BOUNDARY,
        tier=Tier.UNEXPLAINED,
        label=Class.UNEXPLAINED,
    )
    leading[0] |= len(orphans) > 0
    last = points[:-1][~leading]
    last = last[last != points[-1]]
    to_sink = edges(
        last, np.full(len(last), points[-1]), kind=EdgeKind.BOUNDARY, label=Class.UNEXPLAINED
    )
    if len(last):  # then the sink is no orphan
        from_source = from_source.kept(from_source.head != points[-1])
    return from_source, to_sink


def _dag(
    scope: Scope,
    points: NDArray[int64],
    place: NDArray[int64],
    time_ns: NDArray[int64],
    parts: Edges,
    facts: Mapping[str, float],
    repairs: Mapping[str, int],
) -> Dag:
    """Points and edges in their final order; weights at most what passed, residuals the rest."""
    import numpy as np

    head = place[parts.head]
    by_head = np.argsort(head, kind="stable")
    head, tail = head[by_head], place[parts.tail[by_head]]
    times_ns = time_ns[points]
    weight_ns = np.minimum(parts.weight_ns[by_head], times_ns[head] - times_ns[tail])
    residual_ns = np.zeros(len(points), dtype=np.int64)
    if len(head):
        begins = np.flatnonzero(np.diff(head, prepend=-1))
        residual_ns[1:] = times_ns[1:] - np.maximum.reduceat(times_ns[tail] + weight_ns, begins)
    event = np.append(scope.event, [NOBODY])
    inner = points < 2 * len(scope)
    local = np.where(inner, points >> 1, len(scope))
    return Dag(
        time_ns=times_ns,
        event=event[local].astype(np.int32),
        lane=np.append(scope.lane, NOBODY)[local].astype(np.int32),
        is_end=(inner & (points & 1 == 1)).astype(np.bool_),
        residual_ns=residual_ns,
        tail=tail.astype(np.int32),
        head=head.astype(np.int32),
        weight_ns=weight_ns,
        kind=parts.kind[by_head],
        tier=parts.tier[by_head],
        label=parts.label[by_head],
        owner=event[parts.owner[by_head]].astype(np.int32),  # NOBODY is the last one
        window=scope.window,
        facts=facts,
        repairs=repairs,
    )
