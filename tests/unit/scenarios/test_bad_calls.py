"""Callables that no benchmark should meet, each with the verdict that it gets."""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Callable

import pytest

from benchorch.domain.measurement import Observations
from benchorch.errors import MeasureError
from benchorch.hardware.cpu import CpuClock
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.scenario import Scenario
from benchorch.interfaces.stopping import Stopping
from benchorch.scenarios.multi_stream import MultiStream
from benchorch.scenarios.offline import Offline
from benchorch.scenarios.single_stream import SingleStream
from benchorch.stopping.fixed import Fixed
from benchorch.stopping.precision import LEAST_CALLS, Precision
from benchorch.trial.measure import ProcessMeasurement, measure
from support.clocks import Costs, VirtualClock
from support.fakes import Bench, Blocks

EVERY = [SingleStream(), MultiStream(samples_per_query=4), Offline(min_duration_s=5)]


def measured(
    clock: Clock,
    call: Callable[[], object],
    scenario: Scenario | None = None,
    stopping: Stopping | None = None,
) -> ProcessMeasurement:
    return measure(
        [call],
        hardware=Bench(clock),
        scenario=scenario or SingleStream(),
        stopping=stopping or Precision(),
        items_per_call=1,
    )


def per_call_ns(observed: Observations) -> float:
    return min(observed.durations_ns) / observed.calls_per_block


@pytest.mark.parametrize("scenario", [*EVERY[:2], Offline(min_duration_s=0.3)])
def test_a_call_that_returns_at_once_gets_blocks_of_many(scenario: Scenario) -> None:
    """On the real clock: an empty call costs what calling costs."""
    observed = measured(CpuClock(), lambda: None, scenario, Blocks(5)).observations
    assert observed.calls_per_block > 1
    assert per_call_ns(observed) > 0


def test_a_call_that_takes_no_time_at_all_is_an_instrument_fault() -> None:
    clock = VirtualClock(turn_ns=0)
    with pytest.raises(MeasureError, match="stands still") as caught:
        measured(clock, Costs(clock, 0))
    assert caught.value.kind == "instrument_fault"


def test_a_call_that_becomes_shorter_than_a_read_is_an_instrument_fault() -> None:
    clock, made = VirtualClock(turn_ns=0, read_ns=0), itertools.count()
    clock.calibrate = lambda: VirtualClock(read_ns=40).calibrate()  # type: ignore[method-assign]

    def call() -> None:
        clock.spend(1e6 if next(made) < 30 else 10)

    with pytest.raises(MeasureError, match="less than the 40 ns of reading the clock") as caught:
        measured(clock, call)
    assert caught.value.kind == "instrument_fault"


@pytest.mark.parametrize("scenario", EVERY)
def test_a_call_that_gets_slower_for_ever_ends_at_the_cap_and_is_not_steady(
    scenario: Scenario,
) -> None:
    clock = VirtualClock()

    def call() -> None:
        clock.spend(2e6 * math.exp(0.2 * clock.true_ns / 1e9))

    seen = measured(clock, call, scenario)
    assert seen.steady_from is None
    assert 5e9 <= sum(seen.observations.durations_ns) < 10e9


@pytest.mark.parametrize("scenario", EVERY)
def test_a_call_that_raises_ends_the_run_with_its_own_error(
    scenario: Scenario, collector: list[int]
) -> None:
    clock, made = VirtualClock(), itertools.count(1)

    def call() -> None:
        clock.spend(1e6)
        if next(made) == 57:
            raise RuntimeError("the model's own")

    was_enabled, frozen = gc.isenabled(), gc.get_freeze_count()
    with pytest.raises(RuntimeError, match="own"):
        measured(clock, call, scenario, Fixed(calls=1000))
    assert next(made) == 58, "it was called on"
    assert (gc.isenabled(), gc.get_freeze_count()) == (was_enabled, frozen)


@pytest.mark.parametrize("scenario", EVERY)
def test_a_call_that_allocates_for_ever_ends_with_memory_s_own_error(scenario: Scenario) -> None:
    clock, kept = VirtualClock(), list[bytes]()

    def call() -> None:
        clock.spend(1e6)
        kept.append(bytes(1_000))
        if len(kept) == 300:
            raise MemoryError("no more")

    with pytest.raises(MemoryError, match="no more"):
        measured(clock, call, scenario, Fixed(calls=10_000))


def test_a_leak_that_memory_bears_is_measured_to_the_end() -> None:
    clock, kept = VirtualClock(), list[bytes]()

    def call() -> None:
        clock.spend(1e6)
        kept.append(bytes(1_000))

    observed = measured(clock, call, stopping=Fixed(calls=1000)).observations
    assert 1000 <= len(observed.durations_ns) <= 1004


def test_a_budget_too_small_for_one_call_still_gets_the_least_calls() -> None:
    clock = VirtualClock()
    tight = Precision(budget_s=0.001, min_window_s=0.001, max_window_s=0.001)
    seen = measured(clock, Costs(clock, 60e9), stopping=tight)
    assert len(seen.observations.durations_ns) == LEAST_CALLS


def test_a_block_grows_from_what_was_seen_and_so_never_without_end() -> None:
    clock, longest_ns = VirtualClock(turn_ns=0), 0.0
    before_ns = clock.true_ns

    class Watched(VirtualClock):
        def time_block(self, call, repeats, *, at_once=False):  # type: ignore[no-untyped-def]
            nonlocal longest_ns, before_ns
            before_ns = self.true_ns
            timing = VirtualClock.time_block(self, call, repeats, at_once=at_once)
            longest_ns = max(longest_ns, self.true_ns - before_ns)
            return timing

    for cost_ns in (0.5, 7.0, 39.0, 999.0):
        clock = Watched(turn_ns=0)
        measured(clock, Costs(clock, cost_ns), stopping=Blocks(10))
    assert longest_ns < 10 * 1000 * 40
