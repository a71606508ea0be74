"""Edges of polling: host threads that query a device's events until one is reached."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.edge_list import Found, edges, found
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.stream_queues import Queues

_QUERY = re.compile(r"(Event|Stream)Query")
_LEAST = 3
"""Queries in a row, with nothing launched or computed between them, that are a loop."""


def polling(scope: Scope, queue: Queues) -> Found:
    """From device work to the end of the query that found it done; the queries before waited.

    Those lead nowhere: with other times there would be fewer or more of them.

    A loop ends with the first query after the work has ended: of all work launched before the
    loop that is what ended last before its last query did, and after the one before.
    """
    query = scope.named(_QUERY, Category.RUNTIME)
    if len(query) < _LEAST:
        return found()
    runs = _runs(scope, query)
    first, last = query[runs[:, 0]], query[runs[:, 1]]
    before_last = query[runs[:, 1] - 1]
    work = np.full(len(first), NOTHING, dtype=np.int64)
    end_ns = scope.start_ns[before_last].copy()
    for lane in queue.lanes:
        other = queue.last_before(np.full(len(first), lane), scope.start_ns[first])
        other_ns = scope.end_ns[other]
        later = (other != NOTHING) & (other_ns > end_ns) & (other_ns <= scope.end_ns[last])
        work, end_ns = np.where(later, other, work), np.where(later, other_ns, end_ns)
    known = work != NOTHING
    first, last, work = first[known], last[known], work[known]
    head = 2 * last + 1
    return found(
        edges(
            2 * work + 1,
            head,
            EdgeKind.SYNC,
            Class.SYNC_EXIT,
            tier=Tier.SEMANTIC,
            weight_ns=scope.end_ns[last] - scope.end_ns[work],
            owner=last,
        ),
        edges(2 * first + 1, head, EdgeKind.CHAIN, Class.CPU_RUNTIME, owner=last),
        cuts=head,
    )


def _runs(scope: Scope, query: NDArray[np.int64]) -> NDArray[np.int64]:
    """First and last place in `query` of each loop."""
    calls = scope.indices(Category.RUNTIME, Category.OPERATOR)
    busy = np.zeros(scope.hosts + 1, dtype=np.int64)
    busy[calls[calls < scope.hosts]] = 1
    busy[query] = 0
    passed = np.cumsum(busy)
    broken = (np.diff(scope.lane[query]) != 0) | (np.diff(passed[query]) != 0)
    begins = np.flatnonzero(np.append(True, broken))
    ends = np.append(begins[1:], len(query)) - 1
    long = ends - begins + 1 >= _LEAST
    return np.stack([begins[long], ends[long]], axis=1)
