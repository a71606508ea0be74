"""Queues of streams: what was queued when, and which work had to be over at some moment."""

from dataclasses import dataclass
from typing import final

import numpy as np

from benchorch.trace.arrays import Int32s, Int64s
from benchorch.trace.events import NOTHING
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.lookup import by_lane, latest_so_far

_MOST_WAITS = 8  # since a stream's last work: more only repeat each other
_MOST_STREAMS = 8  # that wait for each other without any work in between


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """Device work by lane, in the order in which it was launched; columns of shape ``(works,)``."""

    work: Int64s  # indices into the scope
    lane: Int32s  # and launched_ns: of each; what was launched before the window comes first
    launched_ns: Int64s
    latest: Int64s  # of what was queued on its stream up to each, the work that ended last
    lanes: Int32s  # the streams that have work

    def _before(self, lane: Int64s, at_ns: Int64s) -> Int64s:
        """How much work comes before that which was launched on a lane from some time on."""
        return by_lane(self.lane, self.launched_ns, lane, at_ns)

    def _last_before(self, lane: Int64s, at_ns: Int64s) -> Int64s:
        """The place of the last work that was launched on a lane before some time, or NOTHING."""
        at = self._before(lane, at_ns) - 1
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
        """Of what a call's rank had launched before it, on all streams, the work that ended last.

        Only of what ended after one time and by another; NOTHING where none did. Of a stream that
        works on, `earlier` work counts if it ended just then: an event may be an old one.
        """
        ranks, at_ns = scope.events.ranks, scope.start_ns[call]
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
            later &= ranks[scope.lane[call]] == ranks[lane]
            work, end_ns = np.where(later, other, work), np.where(later, other_ns, end_ns)
        return work

    def launched_before(self, lane: Int64s, at_ns: Int64s) -> Int64s:
        """When the last work before some time was launched on a lane; long ago if there is none."""
        ever_ns = np.minimum(at_ns, self.launched_ns.min(initial=int(at_ns.min(initial=0)))) - 1
        at = self._last_before(lane, at_ns)
        return np.where(at != NOTHING, np.append(self.launched_ns, NOTHING)[at], ever_ns)

    def next_from(self, lane: Int64s, at_ns: Int64s) -> Int64s:
        """The first work that was launched on a lane from some time on, or NOTHING."""
        at = self._before(lane, at_ns)
        on_lane = np.append(self.lane, NOTHING)[at] == lane
        return np.where(on_lane, np.append(self.work, NOTHING)[at], NOTHING)

    def next_anywhere(self, scope: Scope, call: Int64s) -> Int64s:
        """The first work that a call's rank launched on any stream from it on, or NOTHING."""
        own, rank = scope.events.ranks[scope.lane[call]], scope.events.ranks[self.lane]
        order = np.lexsort((self.launched_ns, rank))
        at = by_lane(rank[order], self.launched_ns[order], own, scope.start_ns[call])
        found = np.append(self.work[order], NOTHING)[at]
        return np.where(np.append(rank[order], NOTHING)[at] == own, found, NOTHING)


def stream_queues(scope: Scope) -> Queues:
    """The streams' queues; work without a known launch counts as launched when it started."""
    work = np.arange(scope.hosts, scope.hosts + scope.works, dtype=np.int64)
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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Queues, and what is queued between their work: waits for events of other streams.

    Columns of shape ``(waits,)``, by lane and time.
    """

    queue: Queues  # the work
    lane: Int64s  # and called_ns: which stream waits, and when the host called for it
    called_ns: Int64s
    source: Int64s  # and recorded_ns: the stream of the event, and when the host recorded it there
    recorded_ns: Int64s

    def reached(self, lane: Int64s, at_ns: Int64s) -> tuple[Int64s, Int64s]:
        """The work that had to be over when streams got to what was queued at some times.

        For each lane and time that is its last work by then, and where it was made to wait since,
        what had to be over at that event. Pairs of the request's index and a piece of work.
        """
        requested = np.arange(len(lane), dtype=np.int64)
        lane, at_ns = lane.astype(np.int64), at_ns.astype(np.int64)
        pairs = []
        for _ in range(_MOST_STREAMS):
            work = self.queue.last_before(lane, at_ns)
            pairs.append(np.stack([requested, work], axis=1)[work != NOTHING])
            since = self._since(lane, at_ns)
            if not len(since):
                break
            requested, lane, at_ns = (
                requested[since[:, 0]],
                self.source[since[:, 1]],
                self.recorded_ns[since[:, 1]],
            )
        both = np.unique(np.concatenate(pairs), axis=0)
        return both[:, 0], both[:, 1]

    def _since(self, lane: Int64s, at_ns: Int64s) -> Int64s:
        """Pairs of a request's index and a wait on its lane after the lane's last work by then."""
        if not len(self.lane) or not len(lane):
            return np.zeros((0, 2), dtype=np.int64)
        after_ns = self.queue.launched_before(lane, at_ns)
        low = by_lane(self.lane, self.called_ns, lane, after_ns, "right")
        high = by_lane(self.lane, self.called_ns, lane, at_ns)
        count = np.clip(high - low, 0, _MOST_WAITS)
        requested = np.repeat(np.arange(len(lane)), count)
        place = np.arange(len(requested)) - np.repeat(np.cumsum(count) - count, count)
        return np.stack([requested, np.repeat(high, count) - 1 - place], axis=1)
