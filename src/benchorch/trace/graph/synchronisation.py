"""Edges of synchronisation: device work that host calls and streams waited for."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchorch.trace.arrays import Int64s
from benchorch.trace.dag import Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.device_edges import Fitted, percentile_floors, stream_edges
from benchorch.trace.graph.edge_list import FoundEdges, edges
from benchorch.trace.graph.scope import Scope
from benchorch.trace.graph.stream_queues import Queues, Streams
from benchorch.trace.lookup import by_lane, joined_by


class SyncRecords(NamedTuple):
    """What is recorded of host calls; columns by the scope's index, NOTHING where unknown."""

    stream: Int64s  # the stream a call is about
    device: Int64s  # of that stream
    record: Int64s  # the call that recorded the event that is waited for
    recorded: Int64s  # the lane on which that event was recorded


def sync_records(scope: Scope) -> SyncRecords:
    """The records of every call of a scope."""
    calls = scope.indices(Category.RUNTIME)
    stream, device, record, recorded = (
        np.full(len(scope), NOTHING, dtype=np.int64) for _ in range(4)
    )
    events, on_device = scope.events, scope.events.devices[scope.lane]
    about = events.stream[scope.event]
    correlation, awaited = events.correlation[scope.event], events.awaited[scope.event]
    stream[calls] = about[calls]
    sync = scope.indices(Category.SYNC)
    call = joined_by(correlation, calls, correlation[sync])
    sync, call = sync[call != NOTHING], call[call != NOTHING]
    stream[call] = about[sync]
    device[call] = on_device[sync]
    record[call] = joined_by(correlation, calls, awaited[sync])
    mark = scope.indices(Category.RECORD)
    made = joined_by(correlation, calls, correlation[mark])
    mark, made = mark[made != NOTHING], made[made != NOTHING]
    recorded[made] = lanes_of(scope, about[mark], on_device[mark])
    named = (record[call] != NOTHING) & ~np.isin(record[call], made)
    sync, records = sync[named], record[call[named]]
    recorded[records] = lanes_of(scope, about[records], on_device[sync])
    return SyncRecords(stream=stream, device=device, record=record, recorded=recorded)


def lanes_of(scope: Scope, stream: Int64s, device: Int64s) -> Int64s:
    """The lane of each stream; where the device is unknown, of the first device that has it."""
    found = np.full(len(stream), NOTHING, dtype=np.int64)
    for exactly in (True, False):
        for at, lane in enumerate(scope.events.lanes):
            if lane.on_device:
                fits = (found == NOTHING) & (stream == lane.stream)
                found[fits & (device == lane.device) if exactly else fits] = at
    return found


# Calls into a device's runtime by name, for the runtimes that profilers know.
_CONTEXT_SYNC = re.compile(r"(Device|Ctx|Context|Thread)Synchronize|SynchronizeDevice")
_ALLOCATION = re.compile(
    r"^(cuda|hip|cu)(Mem)?(Free|Alloc|Malloc|FreeHost|HostAlloc)(_v2)?$|^cudaMallocPitch"
)
"""Calls that wait for all work of the device, unless the allocation is ordered by stream."""

_STREAM_SYNC = re.compile(
    r"StreamSynchronize|SynchronizeStream|QueueFinish|Command(Queue|List)(Host)?Synchronize"
)
_EVENT_SYNC = re.compile(
    r"EventSynchronize|SynchronizeEvent|(Event|Fence)HostSynchronize|^(ur|pi)Events?Wait$"
)
_STREAM_WAIT = re.compile(r"StreamWaitEvent")
_QUERY = re.compile(r"(Event|Stream)Query")
_EVENT_CALLS = re.compile(r"StreamWaitEvent|EventRecord")
_COPY = re.compile(r"Memcpy")  # returns after its copy, an asynchronous one from pageable memory
_LEAST = 3  # queries in a row, with nothing launched or computed between them, that are a loop

Awaited = tuple[Int64s, Int64s, Tier]
"""Host calls and the device work that each waits for, (n,), and how well that is known."""


def sync_edges(scope: Scope, streams: Streams, records: SyncRecords) -> FoundEdges:
    """From device work to the host calls that wait for it, those included that were not late.

    A call that waited takes as long as one for which there is nothing to wait.
    """
    by_stream = scope.named(_STREAM_SYNC, Category.RUNTIME)
    stream = lanes_of(scope, records.stream[by_stream], records.device[by_stream])
    by_event = scope.named(_EVENT_SYNC, Category.RUNTIME)
    known = records.record[by_event]
    record = np.where(known != NOTHING, known, by_event)  # else as if recorded by the call itself
    recorded = records.recorded[record]
    parts = [
        _context_syncs(scope, streams, records),
        *_recorded_or_likeliest(scope, streams, by_stream, stream, by_stream),
        *_recorded_or_likeliest(scope, streams, by_event, recorded, record, earlier=True),
        _copies(scope),
    ]
    calls, works, tiers = zip(*parts, strict=True)
    call, work = np.concatenate(calls), np.concatenate(works)
    tier = np.repeat(np.array(tiers), [*map(len, calls)])
    feasible = (work != NOTHING) & (scope.end_ns[work] <= scope.end_ns[call])
    late = int(((work != NOTHING) & ~feasible).sum())
    call, work, tier = call[feasible], work[feasible], tier[feasible]
    waited = np.unique(call[scope.end_ns[work] > scope.start_ns[call]])
    exit_ns, floor_ns = _costs(scope, call, work, waited)
    took_ns, after_ns = scope.end_ns[call] - scope.start_ns[call], exit_ns[scope.name[call]]
    held_ns = np.where(after_ns == NOTHING, took_ns, after_ns)
    woken = tier.astype(np.int8), held_ns, call
    return FoundEdges(
        edges(2 * work + 1, 2 * call + 1, EdgeKind.SYNC, Class.SYNC_EXIT, *woken),
        waits=2 * waited + 1,
        floor_ns=floor_ns[scope.name[waited]],
        repairs={"syncs_before_their_work": late} if late else {},
    )


def _costs(scope: Scope, call: Int64s, work: Int64s, waited: Int64s) -> tuple[Int64s, Int64s]:
    """By name: how long a call takes to return after its work, or NOTHING; and without any."""
    names = max(1, len(scope.events.names))
    last_ns = np.full(len(scope), np.iinfo(np.int64).min)
    np.maximum.at(last_ns, call, scope.end_ns[work])
    after_ns = scope.end_ns[waited] - last_ns[waited]
    exit_ns = percentile_floors(after_ns, scope.name[waited], names, NOTHING)
    synchronising = [
        scope.named(pattern, Category.RUNTIME)
        for pattern in (_CONTEXT_SYNC, _STREAM_SYNC, _EVENT_SYNC, _COPY, _ALLOCATION)
    ]
    others = np.setdiff1d(np.concatenate(synchronising), waited)
    took_ns = scope.end_ns[others] - scope.start_ns[others]
    return exit_ns, percentile_floors(took_ns, scope.name[others], names)


def _context_syncs(scope: Scope, streams: Streams, records: SyncRecords) -> Awaited:
    """Everything that was launched before, on all streams of the device, or of all devices."""
    syncs = scope.named(_CONTEXT_SYNC, Category.RUNTIME)
    call = np.concatenate([syncs, scope.named(_ALLOCATION, Category.RUNTIME)])
    lanes = streams.queue.lanes
    call, lane = np.repeat(call, len(lanes)), np.tile(lanes, len(call))
    device = records.device[call]
    programs = scope.events.programs
    own = (device == NOTHING) | (device == scope.events.devices[lane])
    own &= programs[scope.lane[call]] == programs[lane]
    return _reached(scope, streams, call[own], lane[own], call[own], Tier.SEMANTIC)


def _recorded_or_likeliest(
    scope: Scope, streams: Streams, call: Int64s, lane: Int64s, at: Int64s, *, earlier: bool = False
) -> Iterator[Awaited]:
    """What was queued on a lane when a call was made; on the likeliest, where it is not known."""
    known = lane != NOTHING
    yield _reached(scope, streams, call[known], lane[known], at[known], Tier.RECORDED)
    # The work that ended last while the call ran, over all streams; nothing where none did.
    call, at = call[~known], at[~known]
    until_ns = scope.end_ns[call]
    work = streams.queue.ended_last(scope, at, scope.start_ns[call], until_ns, earlier=earlier)
    yield call, work, Tier.INFERRED


def _reached(
    scope: Scope, streams: Streams, call: Int64s, lane: Int64s, at: Int64s, tier: Tier
) -> Awaited:
    which, work = streams.reached(lane, scope.start_ns[at])
    return call[which], work, tier


def _copies(scope: Scope) -> Awaited:
    """A copy that ended while its call still ran, as that of pageable memory does."""
    work = scope.device_work
    work = work[scope.launch[work] != NOTHING]
    call = scope.launch[work]
    inside = scope.matches(_COPY, call, Category.RUNTIME)
    inside &= scope.end_ns[work] <= scope.end_ns[call]
    return call[inside], work[inside], Tier.SEMANTIC


def streams_of(scope: Scope, queue: Queues, records: SyncRecords) -> Streams:
    """The queues, with the waits whose event and stream are recorded."""
    call = scope.named(_STREAM_WAIT, Category.RUNTIME)
    record = records.record[call]
    lane = lanes_of(scope, records.stream[call], records.device[call])
    source = np.where(record != NOTHING, records.recorded[record], NOTHING)
    known = np.flatnonzero((source != NOTHING) & (lane != NOTHING))
    known = known[np.lexsort((scope.start_ns[call[known]], lane[known]))]
    return Streams(
        queue=queue,
        call=call[known],
        lane=lane[known],
        called_ns=scope.start_ns[call[known]],
        source=source[known],
        recorded_ns=scope.start_ns[record[known]],
    )


def delayed_work(scope: Scope, streams: Streams, records: SyncRecords) -> tuple[Int64s, Int64s]:
    """The work that stream waits delayed: those whose event is known, then all others."""
    call = scope.named(_STREAM_WAIT, Category.RUNTIME)
    others = np.setdiff1d(call, streams.call)
    lane = lanes_of(scope, records.stream[others], records.device[others])
    queue, at_ns = streams.queue, scope.start_ns[others]
    unknown = np.where(
        lane != NOTHING, queue.next_from(lane, at_ns), queue.next_anywhere(scope, others)
    )
    known = queue.next_from(streams.lane, streams.called_ns)
    return known[known != NOTHING], np.unique(unknown[unknown != NOTHING])


def unknown_stream_waits(scope: Scope, work: Int64s, fit: Fitted) -> FoundEdges:
    """From the latest end elsewhere to late work behind a wait for an event without a record."""
    at = work - scope.hosts
    call, before = scope.launch[work], fit.before[at]
    ready_ns = np.where(call != NOTHING, scope.start_ns[call] + fit.launch_ns[at], NOTHING)
    after_ns = np.where(before != NOTHING, scope.end_ns[before] + fit.gap_ns[at], NOTHING)
    ready_ns = np.maximum(ready_ns, after_ns)
    stalled = scope.start_ns[work] - ready_ns > scope.thresholds.stalled_ns
    stalled &= ready_ns >= 0
    work, ready_ns = work[stalled], ready_ns[stalled]
    ends = 2 * scope.device_work + 1
    before = scope.last_elsewhere(ends, scope.lane[work], scope.start_ns[work], ready_ns)
    known = before != NOTHING
    return FoundEdges(stream_edges(scope, before[known] >> 1, work[known], Tier.INFERRED, fit))


def ordered_by_events(scope: Scope, queue: Queues, fit: Fitted) -> FoundEdges:
    """From work before an event to work after the wait for it, where both calls come together.

    Believed of two streams that never contradict it, whether the wait was long or none.
    """
    call = scope.named(_EVENT_CALLS, Category.RUNTIME)
    call = call[np.lexsort((scope.start_ns[call], scope.lane[call]))]
    waits = scope.matches(_STREAM_WAIT, call, Category.RUNTIME)
    pair = np.flatnonzero(waits[1:] & ~waits[:-1] & (np.diff(scope.lane[call]) == 0))
    record, wait = call[pair], call[pair + 1]
    near = scope.start_ns[wait] - scope.end_ns[record] < scope.thresholds.stalled_ns
    record, wait = record[near], wait[near]
    works = scope.device_work
    works = works[scope.launch[works] != NOTHING]
    launch = scope.launch[works]
    order = np.lexsort((scope.start_ns[launch], scope.lane[launch]))
    works, launch = works[order], launch[order]
    when = scope.lane[record], scope.start_ns[record]
    at = by_lane(scope.lane[launch], scope.start_ns[launch], *when)
    then = queue.next_anywhere(scope, wait)
    known = (at > 0) & (then != NOTHING)
    before, then = works[at[known] - 1], then[known]
    apart = scope.lane[before] != scope.lane[then]
    apart &= scope.lane[scope.launch[before]] == scope.lane[scope.launch[then]]
    before, then = before[apart], then[apart]
    streams = scope.lane[before] * np.int64(len(scope.events.lanes)) + scope.lane[then]
    wrong = np.unique(streams[scope.end_ns[before] > scope.start_ns[then]])
    often = np.bincount(np.unique(streams, return_inverse=True)[1], minlength=1)
    sure = ~np.isin(streams, wrong)
    if len(streams):
        sure &= often[np.unique(streams, return_inverse=True)[1]] >= _LEAST
    return FoundEdges(stream_edges(scope, before[sure], then[sure], Tier.INFERRED, fit))


def recorded_stream_waits(scope: Scope, streams: Streams, fit: Fitted) -> FoundEdges:
    """From work before an event's record to the next work on the stream that waits for it."""
    which, work = streams.reached(streams.source, streams.recorded_ns)
    then = streams.queue.next_from(streams.lane, streams.called_ns)[which]
    work, then = work[then != NOTHING], then[then != NOTHING]
    return FoundEdges(stream_edges(scope, work, then, Tier.RECORDED, fit))


def polling(scope: Scope, queue: Queues) -> FoundEdges:
    """From device work to the end of the query that found it done; the queries before waited.

    Of all work launched before the loop it is what ended last between its last two queries.
    """
    query = scope.named(_QUERY, Category.RUNTIME)
    if len(query) < _LEAST:
        return FoundEdges()
    runs = _runs(scope, query)
    first, last = query[runs[:, 0]], query[runs[:, 1]]
    since_ns = scope.start_ns[query[runs[:, 1] - 1]]
    work = queue.ended_last(scope, first, since_ns, scope.end_ns[last], earlier=True)
    known = work != NOTHING
    first, last, work = first[known], last[known], work[known]
    head, late_ns = 2 * last + 1, scope.end_ns[last] - scope.end_ns[work]
    ended = EdgeKind.SYNC, Class.SYNC_EXIT, Tier.SEMANTIC, late_ns, last
    return FoundEdges(
        edges(2 * work + 1, head, *ended),
        edges(2 * first + 1, head, EdgeKind.CHAIN, Class.CPU_RUNTIME, owner=last),
        cuts=head,
    )


def _runs(scope: Scope, query: Int64s) -> Int64s:
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
