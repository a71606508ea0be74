"""Which device work did a host call wait for, and which stream for which other?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from benchorch.trace.builder import runtime
from benchorch.trace.builder.classes import flags
from benchorch.trace.builder.edges import edges, found
from benchorch.trace.builder.floors import floors
from benchorch.trace.builder.launches import join
from benchorch.trace.dag import Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING, Category

if TYPE_CHECKING:
    import re

    from numpy import int8, int64
    from numpy.typing import NDArray

    from benchorch.trace.builder.device_lanes import Fitted
    from benchorch.trace.builder.edges import Edges, Found
    from benchorch.trace.builder.queues import Queues
    from benchorch.trace.builder.scope import Scope


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """Host calls and the device work that each waits for; columns of shape ``(n,)``."""

    call: NDArray[int64]
    work: NDArray[int64]
    tier: NDArray[int8]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What the profiler recorded beside synchronising calls, by the scope's index; else NOTHING.

    Attributes:
        stream: the stream a call is about.
        device: of that stream.
        record: the call that recorded the event that is waited for.
        recorded: the lane on which that event was recorded.
    """

    stream: NDArray[int64]
    device: NDArray[int64]
    record: NDArray[int64]
    recorded: NDArray[int64]


def notes(scope: Scope) -> Notes:
    """What is known of every call; columns of the scope's length."""
    import numpy as np

    calls = scope.indices(Category.RUNTIME)
    columns = {
        name: np.full(len(scope), NOTHING, dtype=np.int64)
        for name in ("stream", "device", "record", "recorded")
    }
    columns["stream"][calls] = scope.stream[calls]
    device = np.array([lane.device for lane in scope.events.lanes] or [NOTHING], dtype=np.int64)
    note = scope.indices(Category.SYNC)
    call = _calls(scope, calls, scope.correlation[note])
    note, call = note[call != NOTHING], call[call != NOTHING]
    columns["stream"][call] = scope.stream[note]
    columns["device"][call] = device[scope.lane[note]]
    columns["record"][call] = _calls(scope, calls, scope.awaited[note])
    mark = scope.indices(Category.RECORD)
    made = _calls(scope, calls, scope.correlation[mark])
    mark, made = mark[made != NOTHING], made[made != NOTHING]
    columns["recorded"][made] = lanes_of(scope, scope.stream[mark], device[scope.lane[mark]])
    told = (columns["record"][call] != NOTHING) & ~np.isin(columns["record"][call], made)
    note, record = note[told], columns["record"][call[told]]
    columns["recorded"][record] = lanes_of(scope, _recording(scope, note), device[scope.lane[note]])
    return Notes(**columns)


def _recording(scope: Scope, note: NDArray[int64]) -> NDArray[int64]:
    """The stream that each of some synchronisations waits for, as its record says."""
    import numpy as np

    index = scope.event[note].tolist()
    said = scope.events.details.read(index) if index else {}
    streams = [str(said[at].get("wait_on_stream", NOTHING)) for at in index]
    return np.array([int(one) if one.isdigit() else NOTHING for one in streams], dtype=np.int64)


def _calls(scope: Scope, calls: NDArray[int64], correlation: NDArray[int64]) -> NDArray[int64]:
    """The call with each correlation, or NOTHING."""
    import numpy as np

    at, _ = join(scope.correlation[calls], scope.start_ns[calls], correlation)
    if not len(calls):
        return at
    return np.where(at != NOTHING, calls[at], NOTHING)


def lanes_of(scope: Scope, stream: NDArray[int64], device: NDArray[int64]) -> NDArray[int64]:
    """The lane of each stream; where the device is not said, of the first device that has it."""
    import numpy as np

    known: dict[tuple[int, int], int] = {}
    for at, lane in enumerate(scope.events.lanes):
        if lane.on_device:
            known.setdefault((lane.device, lane.stream), at)
            known.setdefault((NOTHING, lane.stream), at)
    pairs = zip(device.tolist(), stream.tolist(), strict=True)
    lanes = [
        known.get((one, number), known.get((NOTHING, number), NOTHING)) if number >= 0 else NOTHING
        for one, number in pairs
    ]
    return np.array(lanes, dtype=np.int64)


def syncs(scope: Scope, queue: Queues, note: Notes) -> Found:
    """From device work to the host calls that wait for it, those included that were not late.

    A call waited if any of its work ended after it began; then its own time is what such a call
    takes when there is nothing to wait for.
    """
    import numpy as np

    parts = (
        _context(scope, queue, note),
        _stream(scope, queue, note),
        _event(scope, queue, note),
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
    scope: Scope, call: NDArray[int64], work: NDArray[int64], waited: NDArray[int64]
) -> tuple[NDArray[int64], NDArray[int64]]:
    """By name: how long a call takes to return after its work, and when there is none to do."""
    import numpy as np

    names = max(1, len(scope.events.names))
    last_ns = np.full(len(scope), np.iinfo(np.int64).min)
    np.maximum.at(last_ns, call, scope.end_ns[work])
    exit_ns = floors(scope.end_ns[waited] - last_ns[waited], scope.name[waited], names)
    others = np.setdiff1d(_synchronising(scope), waited)
    took_ns = scope.end_ns[others] - scope.start_ns[others]
    return exit_ns, floors(took_ns, scope.name[others], names)


def _synchronising(scope: Scope) -> NDArray[int64]:
    import numpy as np

    patterns = (runtime.CONTEXT_SYNC, runtime.STREAM_SYNC, runtime.EVENT_SYNC, runtime.COPY)
    return np.concatenate([_named(scope, pattern) for pattern in patterns])


def _named(scope: Scope, pattern: re.Pattern[str]) -> NDArray[int64]:
    """Host calls by name."""
    return scope.named(flags(scope, pattern), Category.RUNTIME)


def _context(scope: Scope, queue: Queues, note: Notes) -> Awaited:
    """Everything that was launched before, on all streams of the device, or of all devices."""
    import numpy as np

    copies = np.setdiff1d(_named(scope, runtime.BLOCKING_COPY), scope.launch[scope.device])
    call = np.concatenate([_named(scope, runtime.CONTEXT_SYNC), copies])
    pairs = np.repeat(call, len(queue.lanes)), np.tile(queue.lanes, len(call))
    devices = np.array([lane.device for lane in scope.events.lanes] or [NOTHING], dtype=np.int64)
    own = (note.device[pairs[0]] == NOTHING) | (note.device[pairs[0]] == devices[pairs[1]])
    call, lane = pairs[0][own], pairs[1][own]
    work = queue.last_before(lane, scope.start_ns[call])
    return _awaited(call, work, Tier.SEMANTIC)


def _stream(scope: Scope, queue: Queues, note: Notes) -> Awaited:
    """What was launched before on the stream, known from the record, else the likeliest one."""
    import numpy as np

    call = _named(scope, runtime.STREAM_SYNC)
    lane = lanes_of(scope, note.stream[call], note.device[call])
    said = lane != NOTHING
    told = _awaited(
        call[said], queue.last_before(lane[said], scope.start_ns[call[said]]), Tier.RECORDED
    )
    guessed = _likeliest(scope, queue, call[~said], scope.start_ns[call[~said]])
    return Awaited(
        call=np.concatenate([told.call, guessed.call]),
        work=np.concatenate([told.work, guessed.work]),
        tier=np.concatenate([told.tier, guessed.tier]),
    )


def _event(scope: Scope, queue: Queues, note: Notes) -> Awaited:
    """What was launched before the event was recorded, on the stream where it was.

    Where the record is not known, before the call; where the stream is not, on the likeliest.
    """
    import numpy as np

    call = _named(scope, runtime.EVENT_SYNC)
    record = np.where(note.record[call] != NOTHING, note.record[call], call)
    said = note.recorded[record] != NOTHING
    told = _awaited(
        call[said],
        queue.last_before(note.recorded[record[said]], scope.start_ns[record[said]]),
        Tier.RECORDED,
    )
    guessed = _likeliest(scope, queue, call[~said], scope.start_ns[record[~said]])
    return Awaited(
        call=np.concatenate([told.call, guessed.call]),
        work=np.concatenate([told.work, guessed.work]),
        tier=np.concatenate([told.tier, guessed.tier]),
    )


def _likeliest(
    scope: Scope, queue: Queues, call: NDArray[int64], before_ns: NDArray[int64]
) -> Awaited:
    """The work that ended last while the call ran, over all streams; nothing where none did."""
    import numpy as np

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
    import numpy as np

    work = np.arange(scope.hosts, scope.hosts + scope.works, dtype=np.int64)
    work = work[scope.launch[work] != NOTHING]
    call = scope.launch[work]
    copying = flags(scope, runtime.COPY)[scope.name[call]]
    inside = copying & (scope.end_ns[work] <= scope.end_ns[call])
    return _awaited(call[inside], work[inside], Tier.SEMANTIC)


def _awaited(call: NDArray[int64], work: NDArray[int64], tier: Tier) -> Awaited:
    import numpy as np

    return Awaited(call=call, work=work, tier=np.full(len(call), tier, dtype=np.int8))


def stream_waits(scope: Scope, queue: Queues, note: Notes, fit: Fitted) -> Found:
    """From work before an event's record to the next work on the stream that waits for it."""
    import numpy as np

    call = _named(scope, runtime.STREAM_WAIT)
    record, lane = note.record[call], lanes_of(scope, note.stream[call], note.device[call])
    source = np.where(record != NOTHING, note.recorded[record], NOTHING)
    known = (source != NOTHING) & (lane != NOTHING)
    call, record, lane, source = (column[known] for column in (call, record, lane, source))
    work = queue.last_before(source, scope.start_ns[record])
    then = queue.next_from(lane, scope.start_ns[call])
    both = (work != NOTHING) & (then != NOTHING)
    work, then = work[both], then[both]
    return found(_after(work, then, Tier.RECORDED, fit, scope))


def _after(
    work: NDArray[int64], then: NDArray[int64], tier: Tier, fit: Fitted, scope: Scope
) -> Edges:
    return edges(
        2 * work + 1,
        2 * then,
        kind=EdgeKind.SYNC,
        tier=tier,
        weight_ns=fit.gap_ns[then - scope.hosts],
        label=Class.STREAM_GAP,
    )
