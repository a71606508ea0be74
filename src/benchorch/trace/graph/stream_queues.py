"""Queues of streams: what was queued when, what had to be over, which launches waited."""

from typing import NamedTuple

import numpy as np

from benchorch.trace.arrays import Bools, Int32s, Int64s
from benchorch.trace.dag import Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING
from benchorch.trace.graph.edge_list import FoundEdges, edges
from benchorch.trace.graph.scope import Scope
from benchorch.trace.lookup import by_lane, latest_so_far

_MOST_WAITS = 8  # since a stream's last work: more only repeat each other
_MOST_STREAMS = 8  # that wait for each other without any work in between


class Queues(NamedTuple):
    """Device work by lane, in the order in which it was launched; columns of shape ``(works,)``."""

    work: Int64s  # indices into the scope
    lane: Int32s  # and launched_ns: of each; what was launched before the window comes first
    launched_ns: Int64s
    latest: Int64s  # of what was queued on its stream up to each, the work that ended last
    lanes: Int32s  # the streams that have work

    def _last_before(self, lane: Int64s, at_ns: Int64s) -> Int64s:
        """The place of the last work that was launched on a lane before some time, or NOTHING."""
        at = by_lane(self.lane, self.launched_ns, lane, at_ns) - 1
        return np.where(np.append(self.lane, NOTHING)[at] == lane, at, NOTHING)

    def last_before(self, lane: Int64s, at_ns: Int64s) -> Int64s:
        """Of what was launched on a lane before some time, the work that ended last, or NOTHING."""
        return np.append(self.latest, NOTHING)[self._last_before(lane, at_ns)]

    def ended_last(
        self,
        scope: Scope,
        call: Int64s,
        after_ns: Int64s,
        until_ns: Int64s,
        *,
        earlier: bool = False,
    ) -> Int64s:
        """Of what a call's process had launched before, the work that ended last between two times.

        Of a stream that works on, `earlier` work counts if it ended just then: an event may be old.
        """
        programs, at_ns = scope.events.programs, scope.start_ns[call]
        work, end_ns = np.full(len(call), NOTHING, dtype=np.int64), after_ns
        for lane in self.lanes:
            lanes = np.full(len(call), lane)
            at = self._last_before(lanes, at_ns)
            if earlier:
                done = by_lane(self.lane, scope.end_ns[self.latest], lanes, until_ns, "right") - 1
                done_ns = scope.end_ns[self.latest[done]]
                just = (done < at) & (until_ns - done_ns <= scope.thresholds.stalled_ns)
                at = np.where(just & (self.lane[done] == lane), done, at)
            other = np.append(self.latest, NOTHING)[at]
            other_ns = scope.end_ns[other]
            later = (other != NOTHING) & (other_ns > end_ns) & (other_ns <= until_ns)
            later &= programs[scope.lane[call]] == programs[lane]
            work, end_ns = np.where(later, other, work), np.where(later, other_ns, end_ns)
        return work

    def launched_before(self, lane: Int64s, at_ns: Int64s) -> Int64s:
        """When the last work before some time was launched on a lane; long ago if there is none."""
        ever_ns = np.minimum(at_ns, self.launched_ns.min(initial=int(at_ns.min(initial=0)))) - 1
        at = self._last_before(lane, at_ns)
        return np.where(at != NOTHING, np.append(self.launched_ns, NOTHING)[at], ever_ns)

    def next_from(self, lane: Int64s, at_ns: Int64s) -> Int64s:
        """The first work that was launched on a lane from some time on, or NOTHING."""
        at = by_lane(self.lane, self.launched_ns, lane, at_ns)
        on_lane = np.append(self.lane, NOTHING)[at] == lane
        return np.where(on_lane, np.append(self.work, NOTHING)[at], NOTHING)

    def next_anywhere(self, scope: Scope, call: Int64s) -> Int64s:
        """The first work that a call's process launched on any stream from it on, or NOTHING."""
        programs = scope.events.programs
        own, program = programs[scope.lane[call]], programs[self.lane]
        order = np.lexsort((self.launched_ns, program))
        at = by_lane(program[order], self.launched_ns[order], own, scope.start_ns[call])
        found = np.append(self.work[order], NOTHING)[at]
        return np.where(np.append(program[order], NOTHING)[at] == own, found, NOTHING)


def stream_queues(scope: Scope) -> Queues:
    """The streams' queues; work without a known launch counts as launched when it started."""
    work = scope.device_work
    call = scope.launch[work]
    launched_ns = np.where(call != NOTHING, scope.start_ns[call], scope.start_ns[work])
    launched_ns[scope.carried[work]] = scope.window.start_ns - 1
    work = work[np.lexsort((scope.start_ns[work], launched_ns, scope.lane[work]))]
    launched_ns = launched_ns[work - scope.hosts]
    lane = scope.lane[work]
    return Queues(
        work=work,
        lane=lane,
        launched_ns=launched_ns,
        latest=work[latest_so_far(lane, scope.end_ns[work])],
        lanes=np.unique(lane),
    )


class Streams(NamedTuple):
    """Queues, and waits for events of other streams between their work; (waits,) in order."""

    queue: Queues  # the work
    call: Int64s  # and lane, called_ns: of the host, which stream waits, and when it was called for
    lane: Int64s
    called_ns: Int64s
    source: Int64s  # and recorded_ns: the stream of the event, and when the host recorded it there
    recorded_ns: Int64s

    def reached(self, lane: Int64s, at_ns: Int64s) -> tuple[Int64s, Int64s]:
        """The work that had to be over when streams got to what was queued at some times.

        That is a lane's last work, and what it was made to wait for since: pairs of index and work.
        """
        requested = np.arange(len(lane), dtype=np.int64)
        lane, at_ns = lane.astype(np.int64), at_ns.astype(np.int64)
        pairs = []
        for _ in range(_MOST_STREAMS):
            work = self.queue.last_before(lane, at_ns)
            pairs.append(np.stack([requested, work], axis=1)[work != NOTHING])
            which, wait = self._since(lane, at_ns)
            if not len(wait):
                break
            requested, lane, at_ns = requested[which], self.source[wait], self.recorded_ns[wait]
        both = np.unique(np.concatenate(pairs), axis=0)
        return both[:, 0], both[:, 1]

    def _since(self, lane: Int64s, at_ns: Int64s) -> tuple[Int64s, Int64s]:
        """Pairs of a request's index and a wait on its lane after the lane's last work by then."""
        after_ns = self.queue.launched_before(lane, at_ns)
        low = by_lane(self.lane, self.called_ns, lane, after_ns, "right")
        high = by_lane(self.lane, self.called_ns, lane, at_ns)
        count = np.clip(high - low, 0, _MOST_WAITS)
        requested = np.repeat(np.arange(len(lane)), count)
        place = np.arange(len(requested)) - np.repeat(np.cumsum(count) - count, count)
        return requested, np.repeat(high, count) - 1 - place


_CONSTANT_RATIO = 0.5  # of the later launches: so many fill a queue that has a limit
_NEAR = 3  # works by which a full queue may seem shorter: several may end while a call returns
_FREE = 5  # calls that nothing held up, from which the cost of a call is known
_USUAL_LAUNCH_NS = 4_500


def full_streams(scope: Scope, queue: Queues) -> FoundEdges:
    """From the end of work to that of the launch that waited for its slot in a full queue.

    Where a stream has a limit and the host runs ahead, most launches leave just as much unfinished.
    """
    parts, facts = [], dict[str, float]()
    waits, floors = list[int](), list[int]()
    for lane in queue.lanes:
        work = scope.on_lane(lane)  # by start, which on a stream is by launch
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
        held_ns = np.minimum(least_ns, lag_ns[usable])
        known = EdgeKind.SYNC, Class.BACKPRESSURE, Tier.INFERRED
        parts.append(edges(2 * tail[usable] + 1, head[usable], *known, held_ns))
        waits += head[blocked].tolist()
        floors += floor_ns[blocked].tolist()
    return FoundEdges(*parts, waits=waits, floor_ns=floors, facts=facts)


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
