"""Which device work did a host call wait for, and which stream for which other?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph import runtime_calls
from benchorch.trace.graph.device_edges import Fitted
from benchorch.trace.graph.edge_list import Found, edges, found
from benchorch.trace.graph.percentile_floor import percentile_floors
from benchorch.trace.graph.point_lookup import moments
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.stream_frontier import Streams
from benchorch.trace.graph.stream_order import stream_edges
from benchorch.trace.graph.stream_queues import Queues
from benchorch.trace.graph.sync_records import Notes, lanes_of
from benchorch.trace.graph.thresholds import Thresholds


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """Host calls and the device work that each waits for; columns of shape ``(n,)``."""

    call: NDArray[np.int64]
    work: NDArray[np.int64]
    tier: NDArray[np.int8]


def syncs(scope: Scope, streams: Streams, note: Notes) -> Found:
    """From device work to the host calls that wait for it, those included that were not late.

    A call waited if any of its work ended after it began; then its own time is what such a call
    takes when there is nothing to wait for.
    """
    parts = (
        _context(scope, streams, note),
        _stream(scope, streams, note),
        _event(scope, streams, note),
        _copies(scope),
    )
    call = np.concatenate([part.call for part in parts])
    work = np.concatenate([part.work for part in parts])
    tier = np.concatenate([part.tier for part in parts])
    feasible = (work != NOTHING) & (scope.end_ns[work] <= scope.end_ns[call])
    late = int(((work != NOTHING) & ~feasible).sum())
    call, work, tier = call[feasible], work[feasible], tier[feasible]
    waited = np.unique(call[scope.end_ns[work] > scope.start_ns[call]])
    exit_ns, floor_ns = _costs(scope, call, work, waited)
    return found(
        edges(
            2 * work + 1,
            2 * call + 1,
            kind=EdgeKind.SYNC,
            tier=tier,
            weight_ns=exit_ns[scope.name[call]],
            label=Class.SYNC_EXIT,
            owner=call,
        ),
        waits=2 * waited + 1,
        floor_ns=floor_ns[scope.name[waited]],
        repairs={"syncs_before_their_work": late} if late else {},
    )


def _costs(
    scope: Scope, call: NDArray[np.int64], work: NDArray[np.int64], waited: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """By name: how long a call takes to return after its work, and when there is none to do."""
    names = max(1, len(scope.events.names))
    last_ns = np.full(len(scope), np.iinfo(np.int64).min)
    np.maximum.at(last_ns, call, scope.end_ns[work])
    exit_ns = percentile_floors(scope.end_ns[waited] - last_ns[waited], scope.name[waited], names)
    others = np.setdiff1d(_synchronising(scope), waited)
    took_ns = scope.end_ns[others] - scope.start_ns[others]
    return exit_ns, percentile_floors(took_ns, scope.name[others], names)


def _synchronising(scope: Scope) -> NDArray[np.int64]:
    patterns = (
        runtime_calls.CONTEXT_SYNC,
        runtime_calls.STREAM_SYNC,
        runtime_calls.EVENT_SYNC,
        runtime_calls.COPY,
    )
    return np.concatenate([_named(scope, pattern) for pattern in patterns])


def _named(scope: Scope, pattern: re.Pattern[str]) -> NDArray[np.int64]:
    """Host calls by name."""
    return scope.named(pattern, Category.RUNTIME)


def _context(scope: Scope, streams: Streams, note: Notes) -> Awaited:
    """Everything that was launched before, on all streams of the device, or of all devices."""
    launching = np.zeros(len(scope) + 1, dtype=np.bool_)  # the last one is NOTHING's
    launching[scope.launch[scope.device]] = True
    copies = _named(scope, runtime_calls.BLOCKING_COPY)
    call = np.concatenate([_named(scope, runtime_calls.CONTEXT_SYNC), copies[~launching[copies]]])
    lanes = streams.queue.lanes
    call, lane = np.repeat(call, len(lanes)), np.tile(lanes, len(call))
    devices = np.array([lane.device for lane in scope.events.lanes] or [NOTHING], dtype=np.int64)
    own = (note.device[call] == NOTHING) | (note.device[call] == devices[lane])
    call, lane = call[own], lane[own]
    return _reached(streams, call, lane, scope.start_ns[call], Tier.SEMANTIC)


def _stream(scope: Scope, streams: Streams, note: Notes) -> Awaited:
    """What was launched before on the stream, known from the record, else the likeliest one."""
    call = _named(scope, runtime_calls.STREAM_SYNC)
    lane = lanes_of(scope, note.stream[call], note.device[call])
    return _said_or_likely(scope, streams, call, lane, scope.start_ns[call])


def _event(scope: Scope, streams: Streams, note: Notes) -> Awaited:
    """What was launched before the event was recorded, on the stream where it was.

    Where the record is not known, before the call; where the stream is not, on the likeliest.
    """
    call = _named(scope, runtime_calls.EVENT_SYNC)
    record = np.where(note.record[call] != NOTHING, note.record[call], call)
    return _said_or_likely(scope, streams, call, note.recorded[record], scope.start_ns[record])


def _said_or_likely(
    scope: Scope,
    streams: Streams,
    call: NDArray[np.int64],
    lane: NDArray[np.int64],
    at_ns: NDArray[np.int64],
) -> Awaited:
    """What was queued on a lane at some time; of all lanes, where the lane is not known."""
    said = lane != NOTHING
    told = _reached(streams, call[said], lane[said], at_ns[said], Tier.RECORDED)
    guessed = _likeliest(scope, streams.queue, call[~said], at_ns[~said])
    return Awaited(
        call=np.concatenate([told.call, guessed.call]),
        work=np.concatenate([told.work, guessed.work]),
        tier=np.concatenate([told.tier, guessed.tier]),
    )


def _reached(
    streams: Streams,
    call: NDArray[np.int64],
    lane: NDArray[np.int64],
    at_ns: NDArray[np.int64],
    tier: Tier,
) -> Awaited:
    which, work = streams.reached(lane, at_ns)
    return _awaited(call[which], work, tier)


def _likeliest(
    scope: Scope, queue: Queues, call: NDArray[np.int64], before_ns: NDArray[np.int64]
) -> Awaited:
    """The work that ended last while the call ran, over all streams; nothing where none did."""
    work = np.full(len(call), NOTHING, dtype=np.int64)
    end_ns = scope.start_ns[call]
    for lane in queue.lanes:
        other = queue.last_before(np.full(len(call), lane), before_ns)
        other_ns = scope.end_ns[other]
        later = (other != NOTHING) & (other_ns > end_ns) & (other_ns <= scope.end_ns[call])
        work, end_ns = np.where(later, other, work), np.where(later, other_ns, end_ns)
    return _awaited(call, work, Tier.INFERRED)


def _copies(scope: Scope) -> Awaited:
    """A copy that ended while its call still ran, as that of pageable memory does."""
    work = np.arange(scope.hosts, scope.hosts + scope.works, dtype=np.int64)
    work = work[scope.launch[work] != NOTHING]
    call = scope.launch[work]
    copying = scope.matches(runtime_calls.COPY, call)
    inside = copying & (scope.end_ns[work] <= scope.end_ns[call])
    return _awaited(call[inside], work[inside], Tier.SEMANTIC)


def _awaited(call: NDArray[np.int64], work: NDArray[np.int64], tier: Tier) -> Awaited:
    return Awaited(call=call, work=work, tier=np.full(len(call), tier, dtype=np.int8))


def streams(scope: Scope, queue: Queues, note: Notes) -> Streams:
    """The queues, with the waits whose event and stream are recorded."""
    call = _named(scope, runtime_calls.STREAM_WAIT)
    call, lane, source = _resolved(scope, call, note)
    order = np.lexsort((scope.start_ns[call], lane))
    call = call[order]
    return Streams(
        queue=queue,
        lane=lane[order],
        called_ns=scope.start_ns[call],
        source=source[order],
        recorded_ns=scope.start_ns[note.record[call]],
    )


def _resolved(
    scope: Scope, call: NDArray[np.int64], note: Notes
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of calls that make a stream wait those of which all is known: with lane and source."""
    record, lane = note.record[call], lanes_of(scope, note.stream[call], note.device[call])
    source = np.where(record != NOTHING, note.recorded[record], NOTHING)
    known = (source != NOTHING) & (lane != NOTHING)
    return call[known], lane[known], source[known]


def held(
    scope: Scope, streams: Streams, note: Notes
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The work that stream waits made wait: those whose event is known, then all others.

    Where not even the stream is known, that is whatever was launched next.
    """
    call = _named(scope, runtime_calls.STREAM_WAIT)
    others = np.setdiff1d(call, _resolved(scope, call, note)[0])
    lane = lanes_of(scope, note.stream[others], note.device[others])
    queue, at_ns = streams.queue, scope.start_ns[others]
    unknown = np.where(lane != NOTHING, queue.next_from(lane, at_ns), queue.next_anywhere(at_ns))
    known = queue.next_from(streams.lane, streams.called_ns)
    return known[known != NOTHING], np.unique(unknown[unknown != NOTHING])


def unknown_waits(
    scope: Scope, work: NDArray[np.int64], fit: Fitted, thresholds: Thresholds
) -> Found:
    """From the latest end on another stream to work that started later than all that is known.

    Only to work before which its stream was told to wait for an event that no record names.
    """
    at = work - scope.hosts
    call, before = scope.launch[work], fit.before[at]
    ready_ns = np.where(call != NOTHING, scope.start_ns[call] + fit.launch_ns[at], NOTHING)
    after_ns = np.where(before != NOTHING, scope.end_ns[before] + fit.gap_ns[at], NOTHING)
    ready_ns = np.maximum(ready_ns, after_ns)
    stalled = scope.start_ns[work] - ready_ns > thresholds.stalled_ns
    work, ready_ns = work[stalled & (ready_ns >= 0)], ready_ns[stalled & (ready_ns >= 0)]
    ends = 2 * np.arange(scope.hosts, scope.hosts + scope.works, dtype=np.int64) + 1
    known = moments(ends, scope.lane[ends >> 1], scope.end_ns[ends >> 1])
    other = known.last_elsewhere(scope.lane[work], scope.start_ns[work])
    during = (other >= 0) & (known.time_ns[other] > ready_ns) if len(ends) else other > NOTHING
    before = known.point[other[during]] >> 1
    return found(stream_edges(before, work[during], Tier.INFERRED, fit, scope))


def stream_waits(scope: Scope, streams: Streams, fit: Fitted) -> Found:
    """From work before an event's record to the next work on the stream that waits for it."""
    which, work = streams.reached(streams.source, streams.recorded_ns)
    then = streams.queue.next_from(streams.lane, streams.called_ns)[which]
    work, then = work[then != NOTHING], then[then != NOTHING]
    return found(stream_edges(work, then, Tier.RECORDED, fit, scope))
