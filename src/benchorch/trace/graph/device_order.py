"""Order of device work that no event records: streams, engines, host functions, CUDA graphs."""

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from benchorch.trace.arrays import Int64s
from benchorch.trace.dag import Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.device_edges import Fitted, stream_edges
from benchorch.trace.graph.edge_list import Edges, FoundEdges, edges, joined
from benchorch.trace.graph.scope import Scope
from benchorch.trace.graph.stream_queues import Queues

_DEFAULT = (0, 7)  # numbers that profiles have for the default stream
_EVIDENCE = 3  # times that work begins as another stream's ends before an order is assumed
_DIRECTIONS = (re.compile(r"HtoD|HostToDevice|M2D"), re.compile(r"DtoH|DeviceToHost|D2M"))
_HOST_FUNCTION = re.compile(r"LaunchHostFunc|StreamAddCallback")
_WAIT_VALUE = re.compile(r"StreamWaitValue")
_BLOCKING = re.compile(r"Memcpy")
_PAGEABLE = re.compile(r"Pageable")


def default_stream(scope: Scope, queue: Queues, fit: Fitted) -> FoundEdges:
    """Between the legacy default stream and blocking streams, in the order of launches.

    Which streams block is not recorded: those whose work never runs beside that of the default
    stream, and begins or lets it begin without a gap time and again.
    """
    parts: list[Edges] = []
    lanes = scope.events.lanes
    for default in (lane for lane in queue.lanes if lanes[lane].stream in _DEFAULT):
        for other in queue.lanes:
            same = lanes[other].device == lanes[default].device
            if other != default and same and _blocks(scope, queue, default, other):
                parts.append(_crossing(scope, queue, default, other, fit))
                parts.append(_crossing(scope, queue, other, default, fit))
    return FoundEdges(*parts)


def _blocks(scope: Scope, queue: Queues, default: int, other: int) -> bool:
    one, two = scope.on_lane(default), scope.on_lane(other)
    ends_ns = np.maximum.accumulate(scope.end_ns[two])
    at = np.searchsorted(scope.start_ns[two], scope.end_ns[one])
    reached = np.where(at > 0, ends_ns[np.maximum(at - 1, 0)], np.iinfo(np.int64).min)
    if (reached > scope.start_ns[one]).any():
        return False  # some of it ran beside
    tight = _tight(scope, one, two) + _tight(scope, two, one)
    return tight >= _EVIDENCE


def _tight(scope: Scope, works: Int64s, others: Int64s) -> int:
    """How often work that was launched long before begins as another stream's work ends."""
    near_ns = scope.thresholds.stalled_ns
    ends_ns = np.sort(scope.end_ns[others])
    start_ns = scope.start_ns[works]
    at = np.searchsorted(ends_ns, start_ns, side="right") - 1
    follows = (at >= 0) & (start_ns - ends_ns[np.maximum(at, 0)] <= near_ns)
    call = scope.launch[works]
    waited = (call == NOTHING) | (scope.start_ns[call] < start_ns - near_ns)
    before_ns = np.append(np.iinfo(np.int64).min, scope.end_ns[works][:-1])
    idle = before_ns < start_ns - near_ns
    return int((follows & waited & idle).sum())


def _crossing(scope: Scope, queue: Queues, lane: int, other: int, fit: Fitted) -> Edges:
    """From work of another lane to the first of a lane that was launched after it."""
    work = scope.on_lane(lane)
    call = scope.launch[work]
    work, call = work[call != NOTHING], call[call != NOTHING]
    before = queue.last_before(np.full(len(work), other), scope.start_ns[call])
    known = before != NOTHING
    known &= scope.end_ns[before] <= scope.start_ns[work]
    work, before = work[known], before[known]
    first = np.diff(before, prepend=NOTHING) != 0
    return stream_edges(scope, before[first], work[first], Tier.SEMANTIC, fit)


def copy_engines(scope: Scope, fit: Fitted) -> FoundEdges:
    """One copy after another of the same direction, where no two of a device ever overlap."""
    copies = scope.indices(Category.COPY)
    parts = []
    device = scope.events.devices[scope.lane[copies]]
    for one in np.unique(device):
        for direction in _DIRECTIONS:
            mine = copies[device == one]
            mine = mine[scope.matches(direction, mine, Category.COPY)]
            mine = mine[np.argsort(scope.start_ns[mine], kind="stable")]
            gap_ns = scope.start_ns[mine][1:] - scope.end_ns[mine][:-1]
            # How often a copy begins as one of another stream ends.
            tight = (np.diff(scope.lane[mine]) != 0) & (gap_ns <= scope.thresholds.stalled_ns)
            if (gap_ns >= 0).all() and tight.sum() >= _EVIDENCE:
                parts.append(stream_edges(scope, mine[:-1], mine[1:], Tier.INFERRED, fit))
    return FoundEdges(*parts)


def host_functions(scope: Scope, queue: Queues, fit: Fitted) -> FoundEdges:
    """Gaps before work that was launched right after a host function or a wait for a value."""
    parts = []
    for pattern, label in ((_HOST_FUNCTION, Class.HOST_FUNCTION), (_WAIT_VALUE, Class.OUTSIDE)):
        call = scope.named(pattern, Category.RUNTIME)
        work = queue.next_anywhere(scope, call)
        call, work = call[work != NOTHING], work[work != NOTHING]
        before = fit.before[work - scope.hosts]
        since_ns = np.where(before != NOTHING, scope.end_ns[before], NOTHING)
        since_ns = np.maximum(since_ns, scope.end_ns[call])
        gap_ns = scope.start_ns[work] - since_ns
        long = gap_ns > scope.thresholds.stalled_ns
        after = (before != NOTHING) & (scope.end_ns[before] >= scope.end_ns[call])
        tail, head = np.where(after, 2 * before + 1, 2 * call + 1)[long], 2 * work[long]
        stood = Tier.SEMANTIC, gap_ns[long], call[long]
        parts.append(edges(tail, head, EdgeKind.STREAM, label, *stood))
    return FoundEdges(*parts)


def staged_copies(scope: Scope) -> FoundEdges:
    """From the start of a copy from pageable memory to its call's end: most of it is staged."""
    work = scope.indices(Category.COPY)
    work = work[(scope.launch[work] != NOTHING) & scope.matches(_PAGEABLE, work, Category.COPY)]
    call = scope.launch[work]
    end_ns = scope.end_ns[call]
    staged = (end_ns > scope.start_ns[work]) & (end_ns < scope.end_ns[work])
    staged &= scope.matches(_BLOCKING, call, Category.RUNTIME)
    work, call = work[staged], call[staged]
    head, known = 2 * call + 1, (EdgeKind.SYNC, Class.GPU_COPY, Tier.SEMANTIC)
    took_ns = scope.end_ns[call] - scope.start_ns[work]
    return FoundEdges(edges(2 * work, head, *known, took_ns, work), waits=head)


# A profile records when they ran, not why. What holds for any graph: all of it comes after what is
# before the launch on its stream, and before what is behind it. The rest is learned from all
# launches of the same graph: the more there are, the less is coincidence.
_TIGHT = 2  # what starts within so many stream gaps after an end was waiting for it


def cuda_graph_launches(scope: Scope, queue: Queues, fit: Fitted) -> FoundEdges:
    """Dependencies between the lanes of launched graphs; graphs on one lane have none to learn."""
    launches = [one for one in _launches(scope) if len({*scope.lane[one].tolist()}) > 1]
    same: defaultdict[tuple[int, ...], list[Int64s]] = defaultdict(list)
    for one in launches:
        same[tuple(scope.graph_node[one].tolist())].append(one)
    learned = [_learned(scope, replays, fit) for replays in same.values()]
    outer = [_around(scope, queue, fit, one) for one in launches]
    return FoundEdges(*learned, *outer)


def _launches(scope: Scope) -> Iterator[Int64s]:
    """The work of every graph launch by node."""
    work = scope.device_work
    work = work[(scope.graph_node[work] != NOTHING) & (scope.launch[work] != NOTHING)]
    if not len(work):
        return
    work = work[np.lexsort((scope.graph_node[work], scope.launch[work]))]
    begins = np.flatnonzero(np.diff(scope.launch[work]) != 0) + 1
    yield from np.split(work, begins)


def _around(scope: Scope, queue: Queues, fit: Fitted, work: Int64s) -> Edges:
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


def _learned(scope: Scope, replays: list[Int64s], fit: Fitted) -> Edges:
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
