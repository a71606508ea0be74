"""The block loop that closed-loop scenarios share."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from benchorch.domain.measurement import Observations
from benchorch.scenarios.series import MOST_RESTARTS, Series, fill, in_turn, sized, window_from
from stand_ins import Blocks
from virtual_clock import Costs, VirtualClock


def observe(clock: VirtualClock, call: Callable[[], object], blocks: int) -> Observations:
    series = Series([call], clock, 1)
    fill(series, Blocks(blocks))
    return series.observations(items_per_call=1)


def at(numbers: set[int], clock: VirtualClock, **counts: int) -> Callable[[], None]:
    """A call of a millisecond in which, at its so-and-so-many-th time, something happens."""
    made = itertools.count()

    def call() -> None:
        clock.spend(1e6)
        if next(made) in numbers:
            clock.happens(**counts)

    return call


def test_cpu_time_is_that_of_the_timed_calls_alone() -> None:
    class Busy(VirtualClock):
        def now_ns(self) -> int:
            self.happens(cpu_ns=10_000)  # bookkeeping between blocks
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


def test_counts_are_read_once_for_each_of_many_blocks_in_a_row() -> None:
    class Counting(VirtualClock):
        reads = 0

        def counts(self):  # type: ignore[no-untyped-def]
            self.reads += 1
            return VirtualClock.counts(self)

    clock = Counting()
    observe(clock, Costs(clock, 1e6), 100)
    assert clock.reads == 101


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


def test_caches_are_left_alone_unless_cold_ones_are_asked_for() -> None:
    clock = VirtualClock()
    observe(clock, Costs(clock, 1e6), 10)
    assert clock.flushes == 0


def test_turns_of_several_calls_go_on_where_the_one_before_ended() -> None:
    seen: list[int] = []
    calls = [lambda i=i: seen.append(i) for i in range(4)]
    for turn in in_turn(calls, 3):
        turn()
    assert seen == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("size", "said"), [(1, "c"), (2, "cc"), (3, "cc-c"), (4, "cc-cc"), (5, "cc-cc-c")]
)
def test_the_device_is_drained_after_every_second_call_but_the_last(size: int, said: str) -> None:
    seen: list[str] = []
    (turn, *_) = in_turn([lambda: seen.append("c")], size, drain=lambda: seen.append("-"))
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
