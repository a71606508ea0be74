"""Edges of launches that a full stream held up."""

import numpy as np

from benchorch.trace.arrays import Bools, Int64s
from benchorch.trace.dag import Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING
from benchorch.trace.graph.edge_list import Found, edges, found, joined
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.stream_queues import Queues

_CONSTANT_RATIO = 0.5
"""Of the later half of all launches: so many leave the queue at its most, where it has a limit."""
_NEAR = 3  # works by which a full queue may seem shorter: several may end while a call returns
_FREE = 5  # calls that nothing held up, from which the cost of a call is known
_USUAL_LAUNCH_NS = 4_500


def full_streams(scope: Scope, queue: Queues) -> Found:
    """From the end of work to that of the launch that waited for its slot in a full queue.

    A queue's depth is fitted: where a stream has a limit and the host runs ahead of it, most
    launches leave exactly as much work unfinished as the queue holds. Work that was launched
    before the recording began is in the queue, too.
    """
    parts, waits, floors, facts = [], [], [], {}
    for lane in queue.lanes:
        work = np.arange(scope.hosts, scope.hosts + scope.works, dtype=np.int64)
        work = work[scope.lane[work] == lane]  # by start, which on a stream is by launch
        ends_ns = np.sort(scope.end_ns[work])
        number = np.flatnonzero(scope.launch[work] != NOTHING)
        call = scope.launch[work[number]]
        held = number + 1 - np.searchsorted(ends_ns, scope.end_ns[call], side="right")
        depth = _depth(held, scope.thresholds.queue)
        if depth is None:
            continue
        facts["queue_depth"] = float(depth)
        full = held >= depth - _NEAR
        slot = number - depth  # the work whose slot it takes
        usable = (slot >= 0) & (np.diff(call, prepend=NOTHING) != 0)
        tail = work[np.maximum(slot, 0)]
        usable &= scope.end_ns[tail] <= scope.end_ns[call]
        floor_ns = _least_ns(scope, call, usable & full)
        head = 2 * call + 1
        lag_ns = scope.end_ns[call] - scope.end_ns[tail]
        blocked = usable & full & (scope.end_ns[tail] > scope.start_ns[call])
        least_ns = int(np.quantile(lag_ns[blocked], 0.05)) if blocked.any() else 0
        parts.append(
            edges(
                2 * tail[usable] + 1,
                head[usable],
                EdgeKind.SYNC,
                Class.BACKPRESSURE,
                tier=Tier.INFERRED,
                weight_ns=np.minimum(least_ns, lag_ns[usable]),
            )
        )
        waits.append(head[blocked])
        floors.append(floor_ns[blocked])
    if not parts:
        return found()
    return found(
        joined(parts), waits=np.concatenate(waits), floor_ns=np.concatenate(floors), facts=facts
    )


def _depth(held: Int64s, least: int) -> int | None:
    """The depth of a queue from what each launch left unfinished; None where it has no limit."""
    later = held[len(held) // 2 :]
    if len(later) < _NEAR:
        return None
    most = int(np.bincount(np.maximum(later, 0)).argmax())
    near = np.abs(later - most) <= _NEAR
    constant = near.mean() >= _CONSTANT_RATIO and most >= held.max() - _NEAR
    return most if constant and most >= least else None


def _least_ns(scope: Scope, call: Int64s, full: Bools) -> Int64s:
    """What a call of each name costs where nothing holds it up; assumed where all are held up."""
    took_ns = scope.end_ns[call] - scope.start_ns[call]
    least_ns = np.zeros(len(call), dtype=np.int64)
    for name in np.flatnonzero(np.bincount(scope.name[call])).tolist():
        these = scope.name[call] == name
        free = these & ~full
        if free.sum() >= _FREE:
            least_ns[these] = int(np.median(took_ns[free]))
        else:
            least_ns[these] = min(_USUAL_LAUNCH_NS, int(took_ns[these].min()))
    return least_ns
