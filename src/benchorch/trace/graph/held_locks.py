"""Waits in a `with` for a lock: no frame shows them, but every release of a lock is one."""

import re

import numpy as np

from benchorch.trace.dag import Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.edge_list import Found, edges, found
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines

_RELEASE = re.compile(r"(?:__exit__|release) of (_thread\.(?:RL|l)ock object at \w+)")


def held_locks(scope: Scope, timelines: ThreadTimelines) -> Found:
    """From the release of a lock to the end of the pause in which another thread waited for it.

    That is a pause in a function that itself releases the same lock next, if another thread did
    so meanwhile.
    """
    release = scope.named(_RELEASE, Category.PYTHON)
    if not len(release):
        return found()
    locks = [_RELEASE.search(name) for name in scope.events.names]
    numbers: dict[str, int] = {}
    lock_of = np.array(
        [numbers.setdefault(one[1], len(numbers)) if one else NOTHING for one in locks]
    )
    lock, end_ns = lock_of[scope.name[release]], scope.end_ns[release]
    gap = np.flatnonzero(
        np.isin(timelines.owner, scope.parent[release])
        & (timelines.elapsed_ns > scope.thresholds.idle_ns)
    )
    tails, heads = [], []
    for at in gap.tolist():
        owner, begin, end = timelines.owner[at], timelines.start_ns[at], timelines.end_ns[at]
        own = release[(scope.parent[release] == owner) & (scope.start_ns[release] >= end)]
        if not len(own):
            continue
        wanted = lock_of[scope.name[own[np.argmin(scope.start_ns[own])]]]
        others = (lock == wanted) & (scope.lane[release] != timelines.lane[at])
        others &= (end_ns > begin) & (end_ns <= end)
        if others.any():
            tails.append(2 * release[others][np.argmax(end_ns[others])] + 1)
            heads.append(timelines.head[at])
    tail, head = np.array(tails, dtype=np.int64), np.array(heads, dtype=np.int64)
    woke_ns = timelines.time_ns[head] - timelines.time_ns[tail]
    waited = edges(tail, head, EdgeKind.WAIT, Class.LOCK, tier=Tier.SEMANTIC, weight_ns=woke_ns)
    return found(waited, waits=head, floor_ns=woke_ns)
