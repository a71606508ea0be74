"""Edges of launches that were held up: by a full stream, or by another thread's lock."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.edge_list import Found, edges, found, joined
from benchorch.trace.graph.event_index import event_index
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.stream_queues import Queues

_LOCKING = re.compile(r"Launch|Memcpy|Memset|Malloc|Free|HostAlloc|HostRegister")
"""Calls that take the lock that all threads of a process share."""
_FULL_RATIO = 0.95
"""Of what a stream held at the most; launches of graphs take several places at once."""


def full_streams(scope: Scope, queue: Queues) -> Found:
    """Waits of long launches onto a full stream, for the start of the next piece of its work.

    A stream is full when it holds about as much as it ever does. How much a stream holds is what
    it held at the most, if that is much.
    """
    parts, waits, floors = [], [], []
    for lane in queue.lanes:
        work = queue.work[queue.lane == lane]
        work = work[(scope.launch[work] != NOTHING) & ~scope.carried[work]]
        call = scope.launch[work]
        by_start = work[np.argsort(scope.start_ns[work], kind="stable")]
        begun = np.searchsorted(scope.start_ns[by_start], scope.end_ns[call], side="right")
        held = np.arange(1, len(work) + 1) - begun
        most = int(held.max(initial=0))
        if most < scope.thresholds.queue:
            continue
        long, usual_ns = _long(scope, call)
        full = long & (held >= _FULL_RATIO * most) & (begun > 0)
        started, call, usual_ns = by_start[begun[full] - 1], call[full], usual_ns[full]
        during = scope.start_ns[started] >= scope.start_ns[call]
        head = 2 * call[during] + 1
        parts.append(
            edges(
                2 * started[during],
                head,
                kind=EdgeKind.SYNC,
                tier=Tier.INFERRED,
                label=Class.BACKPRESSURE,
            )
        )
        waits.append(head)
        floors.append(usual_ns[during])
    if not parts:
        return found()
    return found(joined(parts), waits=np.concatenate(waits), floor_ns=np.concatenate(floors))


def locks(scope: Scope, explained: NDArray[np.int64]) -> Found:
    """Of two long calls of different threads at once the one that ended later waited for a lock.

    Both take much longer than such calls do, and nothing else explains how long the later took.
    """
    call = scope.named(_LOCKING, Category.RUNTIME)
    free = np.ones(2 * len(scope), dtype=np.bool_)
    free[explained] = False
    call = call[free[2 * call + 1]]
    long, usual_ns = _long(scope, call)
    call, usual_ns = call[long], usual_ns[long]
    lane, end_ns = scope.lane[call], scope.end_ns[call]
    ends = event_index(2 * call + 1, lane, end_ns)
    before = ends.last_elsewhere(lane, end_ns, scope.start_ns[call])
    during = before != NOTHING
    before, call, usual_ns = before[during], call[during], usual_ns[during]
    return found(
        edges(
            before,
            2 * call + 1,
            kind=EdgeKind.SYNC,
            tier=Tier.INFERRED,
            weight_ns=usual_ns,
            label=Class.LOCK,
            owner=call,
        ),
        waits=2 * call + 1,
        floor_ns=usual_ns,
    )


def _long(scope: Scope, call: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which calls took several times the median of their name, and that median."""
    took_ns = scope.end_ns[call] - scope.start_ns[call]
    usual_ns = np.zeros(len(call), dtype=np.int64)
    for name in np.flatnonzero(np.bincount(scope.name[call])).tolist():
        these = scope.name[call] == name
        usual_ns[these] = int(np.median(took_ns[these]))
    return took_ns > scope.thresholds.blocked_ratio * usual_ns, usual_ns
