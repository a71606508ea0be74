"""Multi-stream and offline on a clock that the test controls."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from benchorch.domain.measurement import Observations
from benchorch.interfaces.scenario import Scenario
from benchorch.interfaces.stopping import Stopping
from benchorch.scenarios.multi_stream import MultiStream
from benchorch.scenarios.offline import Offline
from support.clocks import Costs, VirtualClock
from support.fakes import Blocks

Call = Callable[[], object]


def run(
    scenario: Scenario,
    clock: VirtualClock,
    calls: Sequence[Call],
    stopping: Stopping | None = None,
    *,
    cold_caches: bool = False,
) -> Observations:
    return scenario.run(
        calls,
        clock=clock,
        calibration=clock.calibrate(),
        stopping=stopping or Blocks(12),
        items_per_call=2,
        cold_caches=cold_caches,
    )


def named(clock: VirtualClock, seen: list[str], names: str, cost_ns: float = 1e6) -> list[Call]:
    def bound(name: str) -> Call:
        def call() -> None:
            seen.append(name)
            clock.spend(cost_ns)

        return call

    return [bound(name) for name in names]


def test_a_query_makes_its_calls_on_inputs_in_turn() -> None:
    clock, seen = VirtualClock(turn_ns=0), list[str]()
    calls = named(clock, seen, "abcdef")
    observed = run(MultiStream(samples_per_query=4), clock, calls, Blocks(5))
    assert "".join(seen) == "abcdefabcdefabcdefab"
    assert (observed.calls_per_query, observed.calls_per_block) == (4, 4)
    assert observed.queries_per_block == 1
    assert set(observed.durations_ns) == {4_000_040}


def test_queries_too_short_for_the_clock_share_a_block() -> None:
    clock = VirtualClock(turn_ns=0)
    observed = run(MultiStream(samples_per_query=4), clock, named(clock, [], "ab", cost_ns=2_000))
    assert observed.queries_per_block == 5
    assert observed.calls_per_block == 20


def test_the_time_inside_a_query_of_many_calls_is_not_split_between_host_and_device() -> None:
    clock = VirtualClock(has_device=True)
    few, many = (
        run(MultiStream(samples_per_query=size), clock, [lambda: clock.issue(1e3, 1e6)])
        for size in (2, 3)
    )
    assert set(few.issue_ns) == {2_000 + 9 + 40}
    assert len(few.device_ns) == len(few.durations_ns)
    assert many.issue_ns == many.device_ns == ()


def test_cold_caches_are_flushed_before_every_query() -> None:
    clock = VirtualClock()
    observed = run(MultiStream(), clock, [Costs(clock, 1_000)], Blocks(10), cold_caches=True)
    assert clock.flushes == 10
    assert observed.queries_per_block == 1


@pytest.mark.parametrize("size", [0, -1])
def test_a_query_of_no_calls_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"samples_per_query: at least 1; got {size}"):
        MultiStream(samples_per_query=size)


@pytest.mark.parametrize(
    ("cost_ns", "calls"), [(30, 3_334_000), (1e6, 100), (7e6, 15), (40e6, 3), (250e6, 1)]
)
def test_offline_blocks_last_a_tenth_of_a_second_or_one_call(cost_ns: float, calls: int) -> None:
    clock = VirtualClock(turn_ns=0)
    makes: Any = Costs(clock, cost_ns)
    observed = run(Offline(), clock, [makes])
    assert observed.calls_per_block == pytest.approx(calls, rel=0.01)
    assert min(observed.durations_ns) >= 100_000_000
    assert observed.at_once
    assert observed.items_per_call == 2


def test_offline_inputs_take_turns_inside_a_block() -> None:
    clock, seen = VirtualClock(), list[str]()
    observed = run(Offline(), clock, named(clock, seen, "abc", cost_ns=10e6))
    per_block = observed.calls_per_block
    assert per_block == 12, "whole rounds of the inputs"
    assert "".join(seen).endswith("abc" * (4 * len(observed.durations_ns)))


def test_offline_slow_calls_take_turns_from_block_to_block() -> None:
    clock, seen = VirtualClock(), list[str]()
    run(Offline(), clock, named(clock, seen, "abcde", cost_ns=45e6), Blocks(5))
    assert "".join(seen).startswith("aabcdeabcdeab"), "one that is too short, then three a block"


def test_offline_goes_on_until_its_time_is_over() -> None:
    clock = VirtualClock()
    long = run(Offline(min_duration_s=20), clock, [Costs(clock, 1e6)], Blocks(1))
    assert sum(long.durations_ns) == pytest.approx(20e9, rel=0.01)


def test_offline_goes_on_until_enough_was_seen() -> None:
    clock = VirtualClock()
    many = run(Offline(min_duration_s=1), clock, [Costs(clock, 1e6)], Blocks(50))
    assert len(many.durations_ns) == 50


def test_offline_takes_a_yes_once_said_for_the_answer() -> None:
    class Once(Blocks):
        def enough_calls(self, durations_ns: Sequence[int], calls_per_block: int) -> bool:
            return len(durations_ns) == self.count

    clock = VirtualClock()
    seen = run(Offline(min_duration_s=2), clock, [Costs(clock, 1e6)], Once(7))
    assert sum(seen.durations_ns) == pytest.approx(2e9, rel=0.06)


def test_offline_collects_garbage_as_it_would_in_service() -> None:
    was_enabled, states = gc.isenabled(), set()
    clock = VirtualClock()

    def call() -> None:
        states.add(gc.isenabled())
        clock.spend(1e8)

    run(Offline(min_duration_s=1), clock, [call])
    assert states == {was_enabled}


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_offline_without_an_end_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="min_duration_s: above 0"):
        Offline(min_duration_s=seconds)
