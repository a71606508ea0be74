"""What wakes the event loops of asyncio: timers, and threads that have something for them."""

import re

import numpy as np

from benchorch.trace.arrays import mask
from benchorch.trace.dag import Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.edge_list import FoundEdges, edges
from benchorch.trace.graph.recorded_waits import lasting
from benchorch.trace.graph.scope import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines
from benchorch.trace.graph.time_classes import TIMER

_NUMBER = re.compile(r"\d+")
_LATER, _FIRED = re.compile(r"\bcall_later\b"), re.compile(r": _set_result_unless_cancelled$")
_POLLS = re.compile(r"built-in method \w+ of select\.")


def timers(scope: Scope, timelines: ThreadTimelines) -> FoundEdges:
    """From where a coroutine began to sleep to the end of the event loop's wait for it.

    What is resumed after the loop waited for a timer had been asleep for as long.
    """
    frame = scope.named(TIMER, Category.PYTHON)
    if not len(frame):
        return FoundEdges()
    later, fired = (scope.named(one, Category.PYTHON) for one in (_LATER, _FIRED))
    begins = np.isin(frame, scope.parent[later])
    names = [_NUMBER.sub("", name) for name in scope.events.names]  # a coroutine goes on elsewhere
    asleep: dict[tuple[object, ...], list[int]] = {}
    slept: dict[int, int] = {}
    for at, sleeps in zip(frame.tolist(), begins.tolist(), strict=True):
        caller = scope.parent[at]
        outer = scope.parent[caller] if caller >= 0 else caller
        key = int(scope.lane[at]), names[scope.name[caller]], names[scope.name[outer]]
        if sleeps:
            asleep.setdefault(key, []).append(at)
        elif asleep.get(key):
            slept[at] = asleep[key].pop(0)
    polls = mask(len(scope) + 1, scope.named(_POLLS, Category.PYTHON))  # the last one is NOBODY's
    long = timelines.elapsed_ns > scope.thresholds.idle_ns
    waits = np.flatnonzero(polls[timelines.owner] & long)
    woken = np.array(sorted(slept), dtype=np.int64)
    first, fires = (np.searchsorted(one, timelines.owner[waits]) for one in (woken, fired))
    until = np.append(timelines.owner[waits][1:], len(scope))
    known = (first < len(woken)) & (fires < len(fired))
    woken, fired = np.append(woken, len(scope)), np.append(fired, len(scope))
    known &= (woken[first] < until) & (fired[fires] < woken[first])
    head = timelines.head[waits[known]]
    sleeper = np.array([slept[at] for at in woken[first[known]].tolist()], dtype=np.int64)
    return lasting(timelines, 2 * sleeper + 1, head, Class.SLEEP, sleeper)


_WRITES, _READS = (
    re.compile(rf"asyncio[/\\]selector_events\.py\(\d+\): {one}$")
    for one in ("_write_to_self", "_read_from_self")
)


def woken_by_threads(scope: Scope, timelines: ThreadTimelines) -> FoundEdges:
    """From where a thread wakes an event loop to the end of the loop's wait, after which it reads.

    `call_soon_threadsafe` writes to the loop, as do executors when a task has ended. What was
    written before the wait began was not waited for, but may be.
    """
    reads, writes = (scope.named(one, Category.PYTHON) for one in (_READS, _WRITES))
    polls = scope.named(_POLLS, Category.PYTHON)
    at = np.searchsorted(polls, reads) - 1
    poll, reads = polls[at[at >= 0]], reads[at >= 0]
    poll = poll[scope.lane[poll] == scope.lane[reads]]
    since_ns = np.full(len(poll), scope.window.start_ns)
    tail = scope.last_elsewhere(2 * writes, scope.lane[poll], scope.end_ns[poll], since_ns)
    poll, tail = poll[tail != NOTHING], tail[tail != NOTHING]
    # Of several loops another may have been the one that was written to.
    tier = Tier.SEMANTIC if len(np.unique(scope.lane[reads])) < 2 else Tier.INFERRED
    waited = timelines.time_ns[tail] >= scope.start_ns[poll]
    head, woke_ns = 2 * poll + 1, scope.end_ns[poll] - timelines.time_ns[tail]
    woke_ns[~waited] = 0
    joined = edges(tail, head, EdgeKind.JOIN, Class.SYNC_EXIT, tier, woke_ns, poll)
    return FoundEdges(joined, waits=head[waited], floor_ns=woke_ns[waited])
