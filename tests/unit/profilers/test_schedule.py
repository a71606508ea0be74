"""How many calls a profiler sees, on a clock whose time a test decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from benchorch.profilers.auto import Auto
from support.clocks import VirtualClock

MS = 1_000_000


def calls(clock: VirtualClock, made: list[int], count: int = 3) -> list[Callable[[], object]]:
    def call(number: int) -> Callable[[], object]:
        def run() -> None:
            made.append(number)
            clock.spend(2 * MS)

        return run

    return [call(number) for number in range(count)]


def test_inputs_take_turns_for_as_many_calls_as_were_asked_for() -> None:
    clock, made = VirtualClock(read_ns=0), []
    taken = Auto().make(5, calls(clock, made), clock)
    assert made == [0, 1, 2, 0, 1]
    assert taken == (2 * MS,) * 5


def test_a_slow_model_is_called_no_longer_than_the_budget_allows() -> None:
    clock, made = VirtualClock(read_ns=0), []
    taken = Auto(budget_s=0.005).make(1000, calls(clock, made), clock)
    assert len(taken) == 3


def test_even_a_model_slower_than_the_budget_is_called_once() -> None:
    clock, made = VirtualClock(read_ns=0), []
    assert len(Auto(budget_s=1e-6).make(10, calls(clock, made), clock)) == 1


def test_no_calls_are_made_where_none_were_asked_for() -> None:
    clock, made = VirtualClock(), []
    assert Auto().make(0, calls(clock, made), clock) == ()
    assert made == []


def test_a_mark_is_around_the_call_and_the_wait_for_the_device() -> None:
    clock, seen = VirtualClock(read_ns=0), []

    @contextmanager
    def mark(number: int) -> Iterator[None]:
        start = clock.true_ns
        yield
        seen.append((number, clock.true_ns - start))

    taken = Auto().make(2, [lambda: clock.issue(1 * MS, 4 * MS)], clock, mark)
    assert seen == [(0, 5 * MS), (1, 5 * MS)]
    assert taken == (5 * MS, 5 * MS)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"wait": 0}, "wait: got 0, it must be at least 1"),
        ({"warmup": -1}, "warmup: got -1, it must be at least 0"),
        ({"active": 0}, "active: got 0, it must be at least 1"),
        ({"budget_s": 0.0}, "budget_s: got 0, it must be above 0"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused(option: dict[str, int], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Auto(**option)
