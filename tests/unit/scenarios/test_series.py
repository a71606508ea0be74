"""The block loop that closed-loop scenarios share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from benchorch.domain.measurement import Observations
from benchorch.errors import MeasureError
from benchorch.scenarios.series import MOST_RESTARTS, Series, cycled, fill, sized, window_from
from support.clocks import Costs, VirtualClock
from support.fakes import Blocks


def observe(clock: VirtualClock, call: Callable[[], object], blocks: int) -> Observations:
    series = Series([call], clock, 1)
    fill(series, Blocks(blocks))
    return series.observations(items_per_call=1)


def at(numbers: set[int], clock: VirtualClock, **counts: int) -> Callable[[], None]:
    """A call of five milliseconds in which, at its so-and-so-many-th time, something happens."""
    made = itertools.count()

    def call() -> None:
        clock.spend(5e6)
        if next(made) in numbers:
            clock.happens(**counts)

    return call


def test_cpu_time_is_that_of_the_timed_calls_alone() -> None:
    class Busy(VirtualClock):
        def now_ns(self) -> int:
            self.cpu_ns += 10_000  # bookkeeping between blocks
            return VirtualClock.now_ns(self)

    clock = VirtualClock(turn_ns=0)
    assert set(observe(clock, Costs(clock, 1e6), 5).cpu_ns) == {1_000_000}


def test_time_without_the_processor_is_no_cpu_time() -> None:
    clock = VirtualClock(turn_ns=0)

    def call() -> None:
        clock.spend(1e6)
        clock.stall(4e6)

    observed = observe(clock, call, 5)
    assert set(observed.cpu_ns) == {1_000_000}
    assert min(observed.durations_ns) >= 5_000_000
    assert all(observed.preempted)


def test_what_happens_between_two_blocks_is_neither_s() -> None:
    clock = VirtualClock()
    series = Series([Costs(clock, 1e6)], clock, 1)
    series.add_block()
    clock.stall(1e6, preemptions=3)  # another series has its turn
    clock.happens(collections=1, compilations=1)
    series.add_block()
    observed = series.observations(items_per_call=1)
    assert observed.preempted == (False, False)
    assert observed.events == {}


def test_short_blocks_follow_each_other_for_milliseconds_before_anything_else_is_done() -> None:
    class Watched(VirtualClock):
        log = ""

        def time_blocks(self, *args, **options):  # type: ignore[no-untyped-def]
            blocks = VirtualClock.time_blocks(self, *args, **options)
            self.log += "b" * len(blocks) + " "
            return blocks

    clock = Watched(turn_ns=0, read_ns=0)
    observe(clock, Costs(clock, 1_000_000), 10)
    assert clock.log == "bbbb bbbb bbbb "
    clock.log = ""
    observe(clock, Costs(clock, 4_000_000), 3)
    assert clock.log == "b b b "
    clock.log = ""
    series = Series([Costs(clock, 1_000)], clock, 1)
    series.add_block()
    assert clock.log == "b "


def test_short_blocks_take_turns_too_and_stop_is_asked_after_every_one() -> None:
    class Asked(Blocks):
        def enough_calls(self, durations_ns: Sequence[int], calls_per_block: int) -> bool:
            asked.append((len(durations_ns), sum(durations_ns), np.asarray(durations_ns).sum()))
            return super().enough_calls(durations_ns, calls_per_block)

    clock, seen = VirtualClock(turn_ns=0, read_ns=0), list[int]()
    asked: list[tuple[int, int, int]] = []

    def bound(number: int) -> Callable[[], object]:
        return lambda: (seen.append(number), clock.spend(400_000))  # type: ignore[func-returns-value]

    series = Series([bound(number) for number in range(3)], clock, 1)
    fill(series, Asked(count=25))
    assert seen == [number % 3 for number in range(30)]
    assert asked == [(n, n * 400_000, n * 400_000) for n in range(1, 26)]


def test_an_event_among_short_blocks_is_held_to_the_last_that_were_timed_with_it() -> None:
    clock, made = VirtualClock(turn_ns=0, read_ns=0), itertools.count()

    def call() -> None:
        clock.spend(1_000_000)
        if next(made) == 5:
            clock.happens(collections=1, preemptions=1)

    observed = observe(clock, call, 12)
    assert observed.events == {"collection": (7,)}
    assert [i for i, flag in enumerate(observed.preempted) if flag] == [5], "that is known exactly"


def test_a_compilation_ends_the_blocks_that_are_timed_together() -> None:
    clock, made = VirtualClock(turn_ns=0, read_ns=0), itertools.count()

    def call() -> None:
        clock.spend(1_000_000)
        if next(made) == 5:
            clock.spend(1e9)
            clock.happens(compilations=1)

    observed = observe(clock, call, 12)
    assert observed.events == {"compilation": (5,)}
    assert len(observed.durations_ns) == 6 + 12


def test_an_event_is_noted_with_the_block_it_happened_in() -> None:
    clock = VirtualClock()
    observed = observe(clock, at({3, 7}, clock, collections=2), 20)
    assert observed.events == {"collection": (3, 7)}
    assert window_from(observed) == 0, "nothing of it makes earlier blocks worthless"


@pytest.mark.parametrize("count", ["compilations", "allocator_retries"])
def test_the_window_starts_anew_after_what_unsettles(count: str) -> None:
    clock = VirtualClock()
    observed = observe(clock, at({0, 7}, clock, **{count: 1}), 20)
    assert len(observed.durations_ns) == 8 + 20
    assert window_from(observed) == 8


def test_counters_that_were_cleared_are_no_event() -> None:
    clock = VirtualClock()
    clock.happens(compilations=5)
    observed = observe(clock, at({4}, clock, compilations=-5), 10)
    assert observed.events == {}


def test_a_model_that_unsettles_at_every_call_is_not_waited_for_for_ever() -> None:
    clock = VirtualClock()
    observed = observe(clock, at(set(range(1000)), clock, compilations=1), 20)
    assert len(observed.durations_ns) == MOST_RESTARTS + 20
    assert window_from(observed) == len(observed.durations_ns)


def test_cold_caches_are_flushed_before_every_block_outside_the_timed_region() -> None:
    clock = VirtualClock(flush_ns=3e6, turn_ns=0)
    series = sized([Costs(clock, 1_000)], clock, clock.calibrate(), cold_caches=True)
    fill(series, Blocks(10))
    observed = series.observations(items_per_call=1)
    assert clock.flushes == 10
    assert observed.calls_per_block == 1, "the second call of a block would be warm"
    assert set(observed.durations_ns) == {1_040}
    assert set(observed.cpu_ns) == {1_000}


def test_a_cold_call_shorter_than_a_read_is_an_instrument_fault() -> None:
    clock = VirtualClock(turn_ns=0, read_ns=0)
    series = sized([Costs(clock, 0)], clock, clock.calibrate(), cold_caches=True)
    with pytest.raises(MeasureError, match="took 0 ns") as caught:
        fill(series, Blocks(10))
    assert caught.value.kind == "instrument_fault"


def test_caches_are_left_alone_unless_cold_ones_are_asked_for() -> None:
    clock = VirtualClock()
    observe(clock, Costs(clock, 1e6), 10)
    assert clock.flushes == 0


def test_turns_of_several_calls_go_on_where_the_one_before_ended() -> None:
    seen: list[int] = []
    calls = [lambda i=i: seen.append(i) for i in range(4)]
    for turn in cycled(calls, 3):
        turn()
    assert seen == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("size", "said"), [(1, "c"), (2, "cc"), (3, "cc-c"), (4, "cc-cc"), (5, "cc-cc-c")]
)
def test_the_device_is_drained_after_every_second_call_but_the_last(size: int, said: str) -> None:
    seen: list[str] = []
    (turn, *_) = cycled([lambda: seen.append("c")], size, drain=lambda: seen.append("-"))
    turn()
    assert "".join(seen) == said


def test_a_part_that_the_clock_does_not_tell_of_every_block_is_not_kept() -> None:
    clock = VirtualClock(has_device=True)
    series = Series([lambda: clock.issue(1_000, 1e6)], clock, 1)
    series.add_block()
    clock.has_device = False
    series.add_block()
    observed = series.observations(items_per_call=1)
    assert observed.issue_ns == observed.device_ns == ()
    assert len(observed.durations_ns) == len(observed.cpu_ns) == 2
