"""Order of the kernels that one launch of a captured CUDA graph starts.

A profile records when they ran, not why. What holds for any graph: all of it comes after what is
before the launch on its stream, and before what is behind it. The rest is learned from all
launches of the same graph: the more there are, the less is coincidence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import Tier
from benchorch.trace.events import NOTHING
from benchorch.trace.graph.device_edges import Fitted, stream_edges
from benchorch.trace.graph.edge_list import Edges, Found, found, joined
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.stream_queues import Queues

_TIGHT = 2
"""What starts within so many stream gaps after an end was waiting for it."""


def cuda_graph_launches(scope: Scope, queue: Queues, fit: Fitted) -> Found:
    """Dependencies between the lanes of launched graphs; graphs on one lane have none to learn."""
    launches = [one for one in _launches(scope) if len({*scope.lane[one].tolist()}) > 1]
    same: defaultdict[tuple[int, ...], list[NDArray[np.int64]]] = defaultdict(list)
    for one in launches:
        same[tuple(scope.graph_node[one].tolist())].append(one)
    learned = [_learned(scope, replays, fit) for replays in same.values()]
    outer = [_around(scope, queue, fit, one) for one in launches]
    return found(joined(learned), joined(outer))


def _launches(scope: Scope) -> Iterator[NDArray[np.int64]]:
    """The work of every graph launch by node."""
    work = np.arange(scope.hosts, scope.hosts + scope.works, dtype=np.int64)
    work = work[(scope.graph_node[work] != NOTHING) & (scope.launch[work] != NOTHING)]
    if not len(work):
        return
    work = work[np.lexsort((scope.graph_node[work], scope.launch[work]))]
    begins = np.flatnonzero(np.diff(scope.launch[work]) != 0) + 1
    yield from np.split(work, begins)


def _around(scope: Scope, queue: Queues, fit: Fitted, work: NDArray[np.int64]) -> Edges:
    """After what is before the launch on the lane that starts first, and before what is behind."""
    root = work[np.argmin(scope.start_ns[work])]
    lane = scope.lane[[root]].astype(np.int64)
    call_ns = scope.start_ns[[scope.launch[root]]]
    before, behind = queue.last_before(lane, call_ns), queue.next_from(lane, call_ns + 1)
    sides = [work[scope.lane[work] == one] for one in np.unique(scope.lane[work]) if one != lane[0]]
    first = np.array([side[np.argmin(scope.start_ns[side])] for side in sides], dtype=np.int64)
    last = np.array([side[np.argmax(scope.end_ns[side])] for side in sides], dtype=np.int64)
    parts = []
    if before[0] != NOTHING:
        parts.append(stream_edges(scope, np.repeat(before, len(first)), first, Tier.SEMANTIC, fit))
    if behind[0] != NOTHING:
        parts.append(stream_edges(scope, last, np.repeat(behind, len(last)), Tier.SEMANTIC, fit))
    return joined(parts)


def _learned(scope: Scope, replays: list[NDArray[np.int64]], fit: Fitted) -> Edges:
    """From a node to one on another lane that came after it each time, and once right after it."""
    work = np.stack(replays)  # (launches, nodes)
    start_ns, end_ns, lane = scope.start_ns[work], scope.end_ns[work], scope.lane[work]
    if (lane != lane[0]).any():
        return joined([])
    parts = []
    for one in np.unique(lane[0]):
        here = np.flatnonzero(lane[0] == one)
        here = here[np.argsort(start_ns[0, here], kind="stable")]
        if (np.diff(end_ns[:, here], axis=1) < 0).any():
            continue  # they overlap, or change places
        there = np.flatnonzero(lane[0] != one)
        before = np.stack(
            [
                np.searchsorted(ends, starts, side="right") - 1
                for ends, starts in zip(end_ns[:, here], start_ns[:, there], strict=True)
            ]
        ).min(axis=0)
        some = before >= 0
        node, then = here[before[some]], there[some]
        gap_ns = (start_ns[:, then] - end_ns[:, node]).min(axis=0)
        tight = gap_ns <= _TIGHT * fit.gap_ns[work[0, then] - scope.hosts]
        pairs = work[:, node[tight]].ravel(), work[:, then[tight]].ravel()
        parts.append(stream_edges(scope, *pairs, Tier.INFERRED, fit))
    return joined(parts)
