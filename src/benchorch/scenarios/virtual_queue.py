"""One queue, first come first served: whoever serves takes the next query and waits for its time.

With one server there is neither a dispatcher nor a second thread. Several are threads that take the
next query from the same line. A model lets the others run while it computes, but Python code
between its kernels does not: what several servers gain depends on the runtime, and is measured.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from benchorch.interfaces.hardware import Clock, Counts, Timing
from benchorch.scenarios.series import fault

Call = Callable[[], object]

_LONGEST_NS = 2**62
_PARTS = ("cpu", "issue", "device")
_EVENTS = {"collection": "collections", "compilation": "compilations"}
_EVENTS["allocator_retry"] = "allocator_retries"


class Line:
    """Queries in the order in which they are due; each is given out once, to any thread.

    Attributes:
        due_ns: when each is due.
    """

    def __init__(self, due_ns: Sequence[int], until_ns: int) -> None:
        """Nothing is given out any more once something was served later than `until_ns`."""
        self.due_ns = due_ns
        self._until_ns = until_ns
        self._next = 0
        self._end = len(due_ns)
        self._lock = threading.Lock()

    def take(self) -> int | None:
        """The next query, or None where there is none left."""
        with self._lock:
            place = self._next
            if place >= self._end:
                return None
            self._next = place + 1
            return place

    def take_waiting(self, now_ns: int, most: int) -> range:
        """The next queries that are due already, at most so many."""
        with self._lock:
            first = last = self._next
            end = min(self._end, first + most)
            while last < end and self.due_ns[last] <= now_ns:
                last += 1
            self._next = last
            return range(first, last)

    def served_until(self, now_ns: int) -> None:
        """Give the rest up if it is too late by now."""
        if now_ns > self._until_ns:
            self.close()

    def close(self) -> None:
        """Give out nothing more."""
        with self._lock:
            self._end = self._next


class Served:
    """What was seen of queries, one entry each.

    Attributes:
        places: of each in its line.
        events: what happened while serving which places.
    """

    def __init__(self) -> None:
        self.places = array("q")
        self.started_ns = array("q")
        self.durations_ns = array("q")
        self.preempted = array("b")
        self.parts_ns = {name: array("q") for name in _PARTS}
        self.events: dict[str, list[int]] = {}

    def add(
        self, batch: Sequence[int], started_ns: int, timing: Timing, before: Counts, after: Counts
    ) -> None:
        """Keep one batch, whose queries start and complete together."""
        for place in batch:
            self.places.append(place)
            self.started_ns.append(started_ns)
            self.durations_ns.append(timing.wall)
            self.preempted.append(after.preemptions > before.preemptions)
            for name, part_ns in zip(
                _PARTS, (timing.cpu, timing.issue, timing.device), strict=True
            ):
                if part_ns is not None:
                    self.parts_ns[name].append(part_ns)
        if after[2:] != before[2:]:
            for event, count in _EVENTS.items():
                if getattr(after, count) > getattr(before, count):
                    self.events.setdefault(event, []).append(batch[0])

    def extend(self, other: Served, offset: int = 0) -> None:
        """Append another's entries, their places moved on by so many."""
        self.places.extend(place + offset for place in other.places)
        self.started_ns.extend(other.started_ns)
        self.durations_ns.extend(other.durations_ns)
        self.preempted.extend(other.preempted)
        for name, parts_ns in other.parts_ns.items():
            self.parts_ns[name].extend(parts_ns)
        for event, places in other.events.items():
            self.events.setdefault(event, []).extend(place + offset for place in places)

    def part(self, name: str) -> tuple[int, ...]:
        """A part of every query's time; empty where the clock did not tell it of each."""
        parts_ns = self.parts_ns[name]
        return tuple(parts_ns) if len(parts_ns) == len(self.places) else ()

    def in_order(self) -> Served:
        """The same by place."""
        order = sorted(range(len(self.places)), key=self.places.__getitem__)
        sorted_ = Served()
        for name in ("places", "started_ns", "durations_ns", "preempted"):
            column = getattr(self, name)
            getattr(sorted_, name).extend(column[entry] for entry in order)
        for name in _PARTS:
            found = self.part(name)
            sorted_.parts_ns[name].extend(found[entry] for entry in order if found)
        sorted_.events = {event: sorted(places) for event, places in self.events.items()}
        return sorted_


def serve(
    line: Line, calls: Sequence[Call], clock: Clock, *, servers: int, max_batch: int
) -> Served:
    """Serve a line to its end.

    Args:
        calls: at least one for each server; no two servers ever make the same one.

    Raises:
        MeasureError: of kind ``instrument_fault`` where the clock contradicts itself.
    """
    seats = [_Server(calls[seat::servers], clock, max_batch) for seat in range(servers)]
    if servers == 1:
        seats[0].work(line)
        return seats[0].served
    _side_by_side(seats, line)
    whole = Served()
    for seat in seats:
        whole.extend(seat.served)
    return whole.in_order()


def _side_by_side(seats: Sequence[_Server], line: Line) -> None:
    """Each in a thread; the first error ends them all and is raised here."""
    with ThreadPoolExecutor(len(seats)) as pool:
        working = [pool.submit(seat.work, line) for seat in seats]
        try:
            for done in as_completed(working):
                done.result()
        finally:
            line.close()  # nobody goes on behind the back of a caller who was interrupted


class _Server:
    """One that serves.

    Attributes:
        served: what it has served.
    """

    def __init__(self, calls: Sequence[Call], clock: Clock, max_batch: int) -> None:
        self.served = Served()
        self._calls = calls
        self._clock = clock
        self._max_batch = max_batch
        self._ended_ns = -_LONGEST_NS

    def work(self, line: Line) -> None:
        """Take, wait, serve, until nothing is left."""
        clock = self._clock
        while (place := line.take()) is not None:
            clock.wait_until(line.due_ns[place])
            batch = [place]
            if self._max_batch > 1:
                batch += line.take_waiting(clock.now_ns(), self._max_batch - 1)
            call = self._call(batch)
            before = clock.counts()
            started_ns = clock.now_ns()
            timing = clock.time_block(call, 1, at_once=True)
            after = clock.counts()
            self._refuse_nonsense(started_ns, timing)
            self.served.add(batch, started_ns, timing, before, after)
            line.served_until(self._ended_ns)

    def _call(self, batch: Sequence[int]) -> Call:
        own = self._calls
        if len(batch) == 1:
            return own[batch[0] % len(own)]
        steps = [own[place % len(own)] for place in batch]

        def issue_all() -> None:
            for step in steps:
                step()

        return issue_all

    def _refuse_nonsense(self, started_ns: int, timing: Timing) -> None:
        if not 0 < timing.wall < _LONGEST_NS:
            raise fault(f"a query took {timing.wall} ns")
        if started_ns < self._ended_ns:
            raise fault("a query started before the one before it had ended")
        self._ended_ns = started_ns + timing.wall
