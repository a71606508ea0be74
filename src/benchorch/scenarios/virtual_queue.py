"""First-come-first-served queue of scheduled queries with one or more servers.

With one server there is neither a dispatcher nor a second thread. Several are threads that take the
next query from the same queue. A model lets the others run while it computes, but Python code
between its kernels does not: what several servers gain depends on the runtime, and is measured.
On a device with a queue of its own, to wait for one call is to wait for all issued before it.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from benchorch.domain.measurement import LONGEST_NS, missed, missed_in
from benchorch.errors import MeasureError, MissedQuery
from benchorch.interfaces.hardware import Clock, Counts, Timing
from benchorch.scenarios.series import fault, of_each

Call = Callable[[], object]

_COLUMNS = ("started_ns", "durations_ns", "preempted", "cpu_ns", "issue_ns", "device_ns")
_EVENTS = {
    "collection": "collections",
    "compilation": "compilations",
    "allocator_retry": "allocator_retries",
}


class QueryQueue:
    """Queries in due order; each is popped once, by any thread.

    Attributes:
        due_ns: when each is due.
        until_ns: nothing more is given out once something was done later than that.
    """

    def __init__(self, due_ns: Sequence[int], until_ns: int) -> None:
        self.due_ns = due_ns
        self.until_ns = until_ns
        self._next = 0
        self._end = len(due_ns)
        self._lock = threading.Lock()

    def pop(self) -> int | None:
        """The next query, or None where there is none left."""
        with self._lock:
            place = self._next
            if place >= self._end:
                return None
            self._next = place + 1
            return place

    def pop_due(self, now_ns: int, most: int) -> range:
        """The next queries that are due already, at most `most`."""
        with self._lock:
            first = last = self._next
            end = min(self._end, first + most)
            while last < end and self.due_ns[last] <= now_ns:
                last += 1
            self._next = last
            return range(first, last)

    def close(self) -> None:
        """Give out nothing more."""
        with self._lock:
            self._end = self._next


class ServedQueries:
    """Timings of served queries, one entry each.

    Attributes:
        places: of each in its queue.
        events: what happened while serving which places.
    """

    def __init__(self) -> None:
        self.places = array("q")
        self.started_ns = array("q")
        self.durations_ns = array("q")
        self.preempted = bytearray()
        self.cpu_ns = array("q")
        self.issue_ns = array("q")
        self.device_ns = array("q")
        self.events: dict[str, list[int]] = {}

    def add(
        self, place: int, started_ns: int, timing: Timing, before: Counts, after: Counts
    ) -> None:
        """Keep one query."""
        wall_ns, issue_ns, device_ns, cpu_ns = timing
        self.places.append(place)
        self.started_ns.append(started_ns)
        self.durations_ns.append(wall_ns)
        self.preempted.append(after.preemptions > before.preemptions)
        if cpu_ns is not None:
            self.cpu_ns.append(cpu_ns)
        if issue_ns is not None:
            self.issue_ns.append(issue_ns)
        if device_ns is not None:
            self.device_ns.append(device_ns)

    def note(self, place: int, before: Counts, after: Counts) -> None:
        """Keep what else happened while a query was served."""
        for event, count in _EVENTS.items():
            if getattr(after, count) > getattr(before, count):
                self.events.setdefault(event, []).append(place)

    def miss(self, place: int, error: MissedQuery) -> None:
        """Keep that a query had no answer."""
        self.events.setdefault(missed(error.cause), []).append(place)

    @property
    def missed(self) -> list[int]:
        """Places of the queries without an answer."""
        return [place for places in missed_in(self.events).values() for place in places]

    def extend(self, other: ServedQueries, offset: int = 0) -> None:
        """Append another's entries, their places moved by `offset`."""
        self.places.extend(place + offset for place in other.places)
        for name in _COLUMNS:
            getattr(self, name).extend(getattr(other, name))
        for event, places in other.events.items():
            self.events.setdefault(event, []).extend(place + offset for place in places)

    def of_each(self, part_ns: Sequence[int]) -> tuple[int, ...]:
        """A part of every query's time; empty where the clock did not report it for each."""
        return of_each(part_ns, len(self.places))

    def in_order(self) -> ServedQueries:
        """The same by place."""
        order = sorted(range(len(self.places)), key=self.places.__getitem__)
        whole = ServedQueries()
        for name in ("places", *_COLUMNS):
            column = getattr(self, name)
            if len(column) == len(order):
                getattr(whole, name).extend(column[entry] for entry in order)
        whole.events = {event: sorted(places) for event, places in self.events.items()}
        return whole


def serve(
    queue: QueryQueue, calls: Sequence[Call], clock: Clock, *, servers: int, max_batch: int
) -> ServedQueries:
    """Serve a queue to its end.

    Args:
        calls: at least one for each server; no two servers ever make the same one.

    Raises:
        MeasureError: of kind ``instrument_fault`` where the clock contradicts itself.
    """
    seats = [_Server(calls[seat::servers], clock, max_batch) for seat in range(servers)]
    if servers == 1:
        seats[0].work(queue)
        return seats[0].served
    _side_by_side(seats, queue)
    whole = ServedQueries()
    for seat in seats:
        whole.extend(seat.served)
    return whole.in_order()


def _side_by_side(seats: Sequence[_Server], queue: QueryQueue) -> None:
    """Run each server in a thread; the first error ends them all and is raised here."""
    with ThreadPoolExecutor(len(seats)) as pool:
        working = [pool.submit(seat.work, queue) for seat in seats]
        try:
            for done in as_completed(working):
                done.result()
        finally:
            queue.close()  # nobody goes on behind the back of a caller who was interrupted


class _Server:
    """Server of the queue.

    Attributes:
        served: what it has served.
    """

    def __init__(self, calls: Sequence[Call], clock: Clock, max_batch: int) -> None:
        self.served = ServedQueries()
        self._calls = calls
        self._clock = clock
        self._max_batch = max_batch

    def work(self, queue: QueryQueue) -> None:
        """Take, wait, serve, until nothing is left.

        Counts are read again only after a wait: of a query that was waited for by others, those of
        the one before it still hold.
        """
        clock, served, calls, ended_ns = self._clock, self.served, self._calls, -LONGEST_NS
        counts, others = clock.counts(), range(0)
        while (place := queue.pop()) is not None:
            due_ns = queue.due_ns[place]
            if due_ns > ended_ns:
                clock.wait_until(due_ns)
                counts = clock.counts()
            if self._max_batch > 1:
                others = queue.pop_due(clock.now_ns(), self._max_batch - 1)
            call = self._together(place, others) if others else calls[place % len(calls)]
            started_ns = clock.now_ns()
            try:
                timing = clock.time_block(call, 1, at_once=True)
            except MissedQuery as error:
                timing = Timing(clock.now_ns() - started_ns)
                served.miss(place, error)
            before, counts = counts, clock.counts()
            wall_ns = timing.wall
            if not 0 < wall_ns < LONGEST_NS or started_ns < ended_ns:
                raise _fault(timing)
            ended_ns = started_ns + wall_ns
            served.add(place, started_ns, timing, before, counts)
            for other in others:
                served.add(other, started_ns, timing, before, counts)
            if counts != before:
                served.note(place, before, counts)
            if ended_ns > queue.until_ns:
                queue.close()

    def _together(self, place: int, others: Sequence[int]) -> Call:
        """All of a batch, issued one after the other and drained once."""
        own = self._calls
        steps = [(one, own[one % len(own)]) for one in (place, *others)]

        def issue_all() -> None:
            for one, step in steps:
                try:
                    step()
                except MissedQuery as error:
                    self.served.miss(one, error)

        return issue_all


def _fault(timing: Timing) -> MeasureError:
    if not 0 < timing.wall < LONGEST_NS:
        return fault(f"a query took {timing.wall} ns")
    return fault("a query started before the one before it had ended")
