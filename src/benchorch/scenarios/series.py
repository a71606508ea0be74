"""Blocks of one run: sized to the clock's resolution, timed one by one, all kept."""

from __future__ import annotations

import gc
import itertools
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypedDict, overload

from benchorch.domain.measurement import (
    LONGEST_NS,
    Calibration,
    Observations,
    missed,
    missed_in,
)
from benchorch.errors import MeasureError
from benchorch.interfaces.generation import TokenCall
from benchorch.interfaces.hardware import Clock, Counts, Timing
from benchorch.interfaces.stopping import Stopping

if TYPE_CHECKING:
    from numpy.typing import NDArray

Call = Callable[[], object]

# A block this many times longer than a read costs, and than the clock can resolve, carries at
# most 0.1 % of either. No longer: longer blocks average interruptions in.
READS_PER_BLOCK = 1000
SIZING_BLOCKS = 5
# One block that lasts so many times longer than it must needs no others beside it.
PLAINLY_LONG = 100
MOST_GROWTH = 10

# A device must not fall behind the time at which it is asked whether to go on.
MOST_IN_FLIGHT = 2

# What makes all blocks before it say nothing about those after it.
UNSETTLING = ("compilation", "allocator_retry")
# A model that is compiled at every call never settles, and is not waited for longer than this.
MOST_RESTARTS = 16

# Short blocks follow each other so long before anything else is done with them: between two of them
# next to nothing runs. What happens to the process is still told to a few milliseconds.
BURST_NS = 4_000_000
MOST_BLOCKS = 128

# More calls than that take longer than any clock's step.
STALLED_AFTER_CALLS = 10**7


class Series:
    """The blocks of one run so far.

    Attributes:
        repeats: how often one block calls its callable.
        calls_per_block: how many calls of the model that makes.
        durations_ns: of every block.
        restarts: how often the window has started anew.
        window_ns: of the blocks since the model was last compiled, or the device's memory last ran
            short; what is asked about when to stop.
        floor_ns: a block shorter than this is an instrument fault; 0 while sizes are tried.
    """

    def __init__(
        self,
        turns: Sequence[Call],
        clock: Clock,
        repeats: int,
        *,
        calls_per_turn: int = 1,
        at_once: bool = False,
        cold_caches: bool = False,
        take_missed: Callable[[], list[str]] | None = None,
    ) -> None:
        """Blocks of `repeats` times one of the `turns`, each made of `calls_per_turn` calls.

        Args:
            take_missed: causes of the calls without an answer since it was last called; blocks are
                then timed one by one.
        """
        self.repeats = repeats
        self.calls_per_block = repeats * calls_per_turn
        self.durations_ns = _whole_numbers()
        self.window_ns = self.durations_ns
        self.floor_ns = 0.0
        self.restarts = 0
        self._count = len(turns)
        # Long enough to take the next ones from anywhere in the first round.
        self._turns = list(turns) * (1 + math.ceil(MOST_BLOCKS / len(turns)))
        self._clock = clock
        self._at_once = at_once
        self._cold = cold_caches
        self._take_missed = take_missed
        self._ended_ns = -LONGEST_NS
        self._starts_ns = _whole_numbers()
        self._cpu_ns = _whole_numbers()
        self._issue_ns = _whole_numbers()
        self._device_ns = _whole_numbers()
        self._preempted = bytearray()
        self._events: dict[str, list[int]] = {}

    def add_block(self) -> None:
        """Time one block; counts are read, and caches flushed, outside the timed region."""
        self._add(for_ns=0)

    def add_blocks(self, most: int = MOST_BLOCKS) -> None:
        """Time as many blocks as fit into a few milliseconds, at least one and at most so many."""
        alone = self._cold or self._take_missed is not None
        self._add(for_ns=0 if alone else BURST_NS, most=most)

    def _add(self, for_ns: int, most: int = MOST_BLOCKS) -> None:
        clock = self._clock
        first = len(self.durations_ns) % self._count
        if self._cold:
            clock.flush_caches()
        before = clock.counts()
        blocks = clock.time_blocks(
            self._turns[first : first + min(most, MOST_BLOCKS)],
            self.repeats,
            at_once=self._at_once,
            for_ns=for_ns,
        )
        after = clock.counts()
        preemptions = before.preemptions
        for started_ns, timing, preempted in blocks:
            self._keep(started_ns, timing)
            self._preempted.append(preempted > preemptions)
            preemptions = preempted
        self._note(before, after)
        for cause in self._take_missed() if self._take_missed else ():
            self._events.setdefault(missed(cause), []).append(len(self.durations_ns) - 1)

    def _fault(self, started_ns: int, timing: Timing) -> MeasureError:
        if not 0 <= timing.wall < LONGEST_NS:
            return fault(f"a block of {self.calls_per_block} calls took {timing.wall} ns")
        if started_ns < self._ended_ns:
            return fault("a block started before the one before it had ended")
        return fault(
            f"a block of {self.calls_per_block} calls took {timing.wall} ns, "
            f"less than the {self.floor_ns:.0f} ns of reading the clock"
        )

    def _keep(self, started_ns: int, timing: Timing) -> None:
        wall_ns, issue_ns, device_ns, cpu_ns = timing
        if not self.floor_ns <= wall_ns < LONGEST_NS or started_ns < self._ended_ns:
            raise self._fault(started_ns, timing)
        self._starts_ns.append(started_ns)
        self.durations_ns.append(wall_ns)
        self._ended_ns = started_ns + wall_ns
        if self.restarts:
            self.window_ns.append(wall_ns)
        if cpu_ns is not None:
            self._cpu_ns.append(_told(cpu_ns))
        if issue_ns is not None:
            self._issue_ns.append(_told(issue_ns))
        if device_ns is not None:
            self._device_ns.append(_told(device_ns))

    def _note(self, before: Counts, after: Counts) -> None:
        """Record events in the last blocks; of several short ones, in the last."""
        if after[1:] == before[1:]:
            return
        risen = {
            "collection": after.collections > before.collections,
            "compilation": after.compilations > before.compilations,
            "allocator_retry": after.allocator_retries > before.allocator_retries,
        }
        for event, happened in risen.items():
            if happened:
                self._events.setdefault(event, []).append(len(self.durations_ns) - 1)
        if any(risen[event] for event in UNSETTLING) and self.restarts < MOST_RESTARTS:
            self.restarts += 1
            self.window_ns = _whole_numbers()

    def observations(self, items_per_call: float, *, calls_per_query: int = 1) -> Observations:
        """The blocks as they are stored."""
        origin_ns = self._starts_ns[0]
        return Observations(
            durations_ns=tuple(self.durations_ns),
            started_ns=tuple(start - origin_ns for start in self._starts_ns),
            calls_per_block=self.calls_per_block,
            items_per_call=items_per_call,
            preempted=tuple(map(bool, self._preempted)),
            cpu_ns=of_each(self._cpu_ns, len(self.durations_ns)),
            issue_ns=of_each(self._issue_ns, len(self.durations_ns)),
            device_ns=of_each(self._device_ns, len(self.durations_ns)),
            calls_per_query=calls_per_query,
            at_once=self._at_once,
            events={event: tuple(blocks) for event, blocks in self._events.items()},
        )


def of_each(parts_ns: Sequence[int], count: int) -> tuple[int, ...]:
    """A part of the time of each of so many; empty unless the clock reported it for each."""
    return tuple(parts_ns) if len(parts_ns) == count else ()


def _told(part_ns: int) -> int:
    if not 0 <= part_ns < LONGEST_NS:
        raise fault(f"part of a block took {part_ns} ns")
    return part_ns


def _whole_numbers() -> array[int]:
    """An empty series of 64-bit numbers: small beside the model whose memory is measured."""
    return array("q")


def sized(
    calls: Sequence[Call],
    clock: Clock,
    calibration: Calibration,
    *,
    calls_per_turn: int = 1,
    cold_caches: bool = False,
) -> Series:
    """First blocks, with the fewest turns that the clock can resolve.

    With cold caches a block is one turn, however short, as only the first of several would be cold;
    and there is none yet.
    """

    def start(repeats: int) -> Series:
        return Series(calls, clock, repeats, calls_per_turn=calls_per_turn)

    if cold_caches:
        series = Series(calls, clock, 1, calls_per_turn=calls_per_turn, cold_caches=True)
        series.floor_ns = _floor_ns(calibration)
        return series
    least_ns = READS_PER_BLOCK * max(calibration.pair_cost_ns, calibration.step_ns)
    # A reading may be one step too long, so the shortest must clear the rule by one.
    return grown(start, least_ns + calibration.step_ns, calibration)


def grown(start: Callable[[int], Series], least_ns: float, calibration: Calibration) -> Series:
    """The first of ever larger series whose blocks all last as long; those before are dropped.

    Args:
        start: an empty series whose blocks hold about as many calls as it is told.

    Raises:
        MeasureError: of kind ``instrument_fault`` where more calls take no more time.
    """
    count = 1
    while True:
        series = start(count)
        if _all_last(series, least_ns):
            series.floor_ns = _floor_ns(calibration)
            return series
        short_ns = series.durations_ns[-1]
        if series.calls_per_block >= STALLED_AFTER_CALLS and short_ns <= calibration.pair_cost_ns:
            raise fault(
                f"{series.calls_per_block} calls took {short_ns} ns: the clock stands still"
            )
        count = _more(count, short_ns, least_ns)


def _floor_ns(calibration: Calibration) -> float:
    """Minimum time of a non-empty block."""
    return max(calibration.pair_cost_ns, 1.0)


def _all_last(series: Series, least_ns: float) -> bool:
    """Whether the first few blocks all last so long; none is added after one that does not."""
    for _ in range(SIZING_BLOCKS):
        series.add_block()
        if series.durations_ns[-1] < least_ns:
            return False
        if series.durations_ns[-1] > PLAINLY_LONG * least_ns:
            return True
    return True


def _more(count: int, short_ns: int, least_ns: float) -> int:
    """Next number of calls to try: at most tenfold, as short blocks are timed roughly."""
    if short_ns * MOST_GROWTH <= least_ns:
        return count * MOST_GROWTH
    return max(count + 1, math.ceil(count * least_ns / short_ns))


def fill(series: Series, stopping: Stopping, *, least_ns: float = 0.0) -> None:
    """Add blocks until the window is enough for `stopping`, and lasts at least so long.

    What `stopping` said holds until the window starts anew.
    """
    window_ns, checked, enough = series.window_ns, 0, False
    while True:
        if window_ns is not series.window_ns:
            window_ns, checked, enough = series.window_ns, 0, False
        while not enough and checked < len(window_ns):
            checked += 1
            enough = stopping.enough_calls(_Prefix(window_ns, checked), series.calls_per_block)
        if enough and (least_ns == 0 or sum(window_ns) >= least_ns):
            return
        series.add_blocks()


class _Prefix(Sequence[int]):
    """The first so many of a series, without a copy of them."""

    def __init__(self, values: array[int], count: int) -> None:
        self._values = values
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return itertools.islice(self._values, self._count)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        places = range(self._count)[index]
        if isinstance(places, int):
            return self._values[places]
        return [self._values[place] for place in places]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """For NumPy, which would go through it one by one."""
        import numpy as np

        return np.array(self._values[: self._count], dtype=dtype)


def cycled(calls: Sequence[Call], size: int, *, drain: Call | None = None) -> list[Call]:
    """Callables that make `size` calls each, every one going on where the one before ended.

    Args:
        drain: called whenever `MOST_IN_FLIGHT` calls have been made and more are to come.
    """
    if size == 1:
        return list(calls)
    count = len(calls)
    starts = range(0, math.lcm(count, size), size)
    return [_sequence([calls[(start + i) % count] for i in range(size)], drain) for start in starts]


def _sequence(calls: Sequence[Call], drain: Call | None) -> Call:
    steps: list[Call] = []
    for number, call in enumerate(calls):
        if drain is not None and number and number % MOST_IN_FLIGHT == 0:
            steps.append(drain)
        steps.append(call)

    def make_all() -> None:
        for step in steps:
            step()

    return make_all


def window_from(observations: Observations) -> int:
    """From which block on a steady state may begin: after the last compilation and the like."""
    blocks = [block for event in UNSETTLING for block in observations.events.get(event, ())]
    return max(blocks, default=-1) + 1


def fault(saw: str) -> MeasureError:
    """An instrument fault, to be raised."""
    return MeasureError(
        f"The clock contradicts itself: {saw}.",
        kind="instrument_fault",
        remedy="run it again; if it repeats, this machine's clock cannot be trusted",
    )


def nothing_answered(
    queries: str, events: Mapping[str, Sequence[int]], remedy: str
) -> MeasureError:
    """The error of a run whose queries all had no answer, to be raised."""
    causes = ", ".join(f"{cause}: {len(places)}" for cause, places in missed_in(events).items())
    return MeasureError(
        f"None of the {queries} got an answer ({causes}).", kind="endpoint", remedy=remedy
    )


@contextmanager
def quiet_heap() -> Iterator[None]:
    """No garbage collection inside; afterwards it is as it was.

    What a template imported is frozen already, and stays so: every collection would look at it.
    """
    was_enabled, was_frozen = gc.isenabled(), gc.get_freeze_count() > 0
    gc.collect()
    if not was_frozen:
        gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        if not was_frozen:
            gc.unfreeze()
        if was_enabled:
            gc.enable()


class TokenFields(TypedDict):
    """Fields of `Observations` for calls that generate tokens."""

    token_ns: tuple[int, ...]
    tokens_per_call: int


def token_times(streams: Iterable[TokenCall]) -> list[tuple[int, ...]]:
    """Start and tokens of each call since the last request, in the order of the calls."""
    return sorted(times for stream in streams for times in stream.take_times())


def token_fields(times: Sequence[tuple[int, ...]]) -> TokenFields:
    """The time of each token since the one before it."""
    return TokenFields(
        token_ns=tuple(later - earlier for call in times for earlier, later in pairwise(call)),
        tokens_per_call=len(times[0]) - 1 if times else 0,
    )
