"""In which order did the points come, those of the same nanosecond included?

By time; of the same time first ends of device work, then points of host threads, then starts of
device work, for what ended may have let others go on. Threads keep their own order. Where a
dependency between points of the same time contradicts that, it decides.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

    from benchorch.trace.builder.chains import Chains
    from benchorch.trace.builder.edges import Edges
    from benchorch.trace.builder.scope import Scope

# Ranks among points of the same time; what takes no time stands between ends and starts.
_DEVICE_END, _HOST_END, _HOST_INSTANT, _HOST_START, _DEVICE_INSTANT, _DEVICE_START = range(6)
_RANKS = 8


def order(scope: Scope, chains: Chains, time_ns: NDArray[int64], edges: Edges) -> NDArray[int64]:
    """All points that take part in topological order, source first and sink last.

    Parameters
    ----------
    time_ns : int64 array, shape (2n + 2,)
        Of every point of the scope, of the source and of the sink.
    """
    import numpy as np

    points = np.concatenate([chains.walk, np.arange(2 * scope.hosts, 2 * _works_end(scope))])
    rank = np.concatenate([_host_ranks(chains, time_ns), _device_ranks(scope)])
    key = (time_ns[points] - scope.window.start_ns) * _RANKS + rank
    points = points[np.argsort(key, kind="stable")]
    source = 2 * len(scope)
    points = np.concatenate([[source], points, [source + 1]])
    return _settled(points, time_ns, edges)


def positions(points: NDArray[int64], size: int) -> NDArray[int64]:
    """The place of every point in an order, -1 of those that do not take part."""
    import numpy as np

    place = np.full(size, -1, dtype=np.int64)
    place[points] = np.arange(len(points))
    return place


def _works_end(scope: Scope) -> int:
    return scope.hosts + scope.works


def _host_ranks(chains: Chains, time_ns: NDArray[int64]) -> NDArray[int64]:
    """Ranks of the walk's points; along a thread and within one time they never fall."""
    import numpy as np

    walk = chains.walk
    ends = walk & 1
    instant = time_ns[walk] == time_ns[walk ^ 1]
    rank = np.where(instant, _HOST_INSTANT, np.where(ends, _HOST_END, _HOST_START))
    moves = np.append(True, time_ns[walk[1:]] != time_ns[walk[:-1]])[: len(walk)]
    moves[chains.first] = True
    base = np.cumsum(moves) * _RANKS
    risen: NDArray[int64] = np.maximum.accumulate(base + rank) - base
    return risen


def _device_ranks(scope: Scope) -> NDArray[int64]:
    """Ranks of the starts and ends of device work."""
    import numpy as np

    instant = scope.start_ns[scope.device] == scope.end_ns[scope.device]
    start = np.where(instant, _DEVICE_INSTANT, _DEVICE_START)
    end = np.where(instant, _DEVICE_INSTANT, _DEVICE_END)
    return np.stack([start, end], axis=1).ravel()


def _settled(points: NDArray[int64], time_ns: NDArray[int64], edges: Edges) -> NDArray[int64]:
    """The same order where no dependency contradicts it; else such points change places.

    Contradictions are rare (clocks of microseconds, or events that take no time), so the few
    points of the same time are sorted one by one.
    """
    import numpy as np

    place = positions(points, len(time_ns))
    instant = np.flatnonzero(time_ns[edges.tail] == time_ns[edges.head])
    tail, head = place[edges.tail[instant]], place[edges.head[instant]]
    wrong = np.unique(time_ns[edges.tail[instant[tail > head]]])
    if not len(wrong):
        return points
    inner = (tail > 0) & (head < len(points) - 1)  # source and sink keep their places
    inner &= np.isin(time_ns[edges.tail[instant]], wrong)
    pairs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for one, other in zip(tail[inner].tolist(), head[inner].tolist(), strict=True):
        pairs[int(time_ns[points[one]])].append((one, other))
    points = points.copy()
    for group in pairs.values():
        at = sorted({place for pair in group for place in pair})
        points[at] = points[_sorted(at, group)]
    return points


def _sorted(places: list[int], pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Places in an order in which the first of each pair comes first, else as they were.

    Those on a circle stay as they were, behind the others: who asks finds pairs in the wrong
    order and drops them.
    """
    after: dict[int, list[int]] = defaultdict(list)
    before = dict.fromkeys(places, 0)
    for one, other in pairs:
        after[one].append(other)
        before[other] += 1
    ready = [place for place in places if not before[place]]
    done: list[int] = []
    while ready:
        place = heapq.heappop(ready)
        done.append(place)
        for other in after[place]:
            before[other] -= 1
            if not before[other]:
                heapq.heappush(ready, other)
    known = set(done)
    return done + [place for place in places if place not in known]
