"""Single stream on clocks that the test controls."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchorch.domain.measurement import Observations
from benchorch.errors import MeasureError
from benchorch.interfaces.hardware import Timing
from benchorch.interfaces.stopping import Stopping
from benchorch.scenarios.single_stream import SingleStream
from virtual_clock import Costs, VirtualClock


class Blocks(Stopping):
    """Enough after so many blocks."""

    def __init__(self, count: int) -> None:
        self.count = count

    def enough_calls(self, durations_ns: Sequence[int], calls_per_block: int) -> bool:
        return len(durations_ns) >= self.count

    def enough_processes(
        self,
        medians_ns: Sequence[float],
        elapsed_s: float,
        log_ratios: Sequence[float] = (),
        delta_ratio: float = 0.01,
    ) -> str | None:
        return "fixed"

    def alpha(self, reason: str) -> float:
        return 0.05


def run(
    clock: VirtualClock, calls: Sequence[Callable[[], object]], blocks: int = 12, items: int = 1
) -> Observations:
    return SingleStream().run(
        calls,
        clock=clock,
        calibration=clock.calibrate(),
        stopping=Blocks(blocks),
        items_per_call=items,
    )


@settings(max_examples=60)  # each one collects the whole heap's garbage first
@given(
    step_ns=st.integers(1, 16_000_000),
    cost_ns=st.floats(50, 1e9),
    read_ns=st.floats(0, 1000),
)
def test_a_block_dwarfs_the_clock_and_is_no_longer_than_that_takes(
    step_ns: int, cost_ns: float, read_ns: float
) -> None:
    clock = VirtualClock(step_ns=step_ns, read_ns=read_ns, turn_ns=0)
    observed = run(clock, [Costs(clock, cost_ns)])
    least_ns = 1000 * max(step_ns, read_ns)
    block_ns = observed.calls_per_block * cost_ns
    assert block_ns + read_ns >= least_ns
    assert observed.calls_per_block == 1 or block_ns <= 1.02 * least_ns + step_ns * 3 + cost_ns
    for duration_ns in observed.durations_ns:
        assert duration_ns == pytest.approx(block_ns + read_ns, rel=1.01e-3)


def test_reading_the_clock_biases_a_call_by_less_than_a_thousandth() -> None:
    clock = VirtualClock(turn_ns=0)
    observed = run(clock, [Costs(clock, 10_000)])
    per_call = observed.durations_ns[0] / observed.calls_per_block
    assert observed.calls_per_block == 4
    assert per_call == pytest.approx(10_000, rel=1e-3)


def test_calls_longer_than_a_thousand_reads_are_timed_one_by_one() -> None:
    clock = VirtualClock()
    assert run(clock, [Costs(clock, 50_000)]).calls_per_block == 1
    assert run(clock, [Costs(clock, 30_000)]).calls_per_block == 2
    assert run(clock, [Costs(clock, 300)]).calls_per_block == 130


def test_every_block_is_kept_from_the_very_first() -> None:
    clock = VirtualClock()
    costs = iter([9e6, 3e6, *[1e6] * 50])

    def call() -> None:
        clock.spend(next(costs))

    observed = run(clock, [call])
    assert [round(d / 1e6) for d in observed.durations_ns[:3]] == [9, 3, 1]
    assert observed.started_ns[0] == 0
    assert list(observed.started_ns) == sorted(observed.started_ns)
    assert len(observed.started_ns) == len(observed.preempted) == 12


def test_the_calls_take_turns() -> None:
    clock, seen = VirtualClock(), []

    def bound(name: str) -> Callable[[], object]:
        def call() -> None:
            seen.append(name)
            clock.spend(1e6)

        return call

    run(clock, [bound("a"), bound("b"), bound("c")], blocks=7)
    assert "".join(seen) == "abcabca"


def test_a_block_in_which_the_thread_was_switched_out_is_marked() -> None:
    clock, turn = VirtualClock(), iter(range(100))

    def call() -> None:
        clock.spend(1e6)
        clock.happens(preemptions=next(turn) == 6)

    observed = run(clock, [call])
    assert [i for i, flag in enumerate(observed.preempted) if flag] == [6]


def test_work_that_a_device_finishes_later_counts() -> None:
    clock = VirtualClock(read_ns=0, turn_ns=0, has_device=True)

    def issue() -> None:
        clock.issue(1_000, 2_000_000)

    observed = run(clock, [issue])
    assert set(observed.durations_ns) == {2_001_000}


@pytest.mark.parametrize("wrong", [-1, 0, 39, math.nan, math.inf])
def test_a_duration_that_cannot_be_is_an_instrument_fault(wrong: float) -> None:
    class Faulty(VirtualClock):
        blocks = 0

        def time_block(
            self, call: Callable[[], object], repeats: int, *, at_once: bool = False
        ) -> Timing:
            self.blocks += 1
            right = VirtualClock.time_block(self, call, repeats)
            return Timing(wrong) if self.blocks == 8 else right  # type: ignore[arg-type]

    clock = Faulty()
    with pytest.raises(MeasureError, match="clock") as caught:
        run(clock, [Costs(clock, 1e6)])
    assert caught.value.kind == "instrument_fault"


def test_a_clock_that_stands_still_is_an_instrument_fault() -> None:
    class Stalled(VirtualClock):
        def time_block(
            self, call: Callable[[], object], repeats: int, *, at_once: bool = False
        ) -> Timing:
            return Timing(0)

    clock = Stalled()
    with pytest.raises(MeasureError, match="stands still") as caught:
        run(clock, [Costs(clock, 1e6)])
    assert caught.value.kind == "instrument_fault"


def test_a_clock_that_steps_back_between_blocks_is_an_instrument_fault() -> None:
    class Stepping(VirtualClock):
        reads = 0

        def now_ns(self) -> int:
            self.reads += 1
            self.true_ns -= 5e6 if self.reads == 30 else 0
            return VirtualClock.now_ns(self)

    clock = Stepping()
    with pytest.raises(MeasureError) as caught:
        run(clock, [Costs(clock, 1e6)])
    assert caught.value.kind == "instrument_fault"


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_before_and_not_during_the_run(enabled: bool) -> None:
    was_enabled, states = gc.isenabled(), []
    clock = VirtualClock()

    def call() -> None:
        states.append(gc.isenabled())
        clock.spend(1e6)

    try:
        (gc.enable if enabled else gc.disable)()
        run(clock, [call])
        assert gc.isenabled() is enabled
        assert gc.get_freeze_count() == 0
    finally:
        (gc.enable if was_enabled else gc.disable)()
    assert not any(states)


def test_the_heap_is_as_before_when_a_call_fails() -> None:
    def call() -> None:
        raise RuntimeError("the model's own")

    was_enabled = gc.isenabled()
    with pytest.raises(RuntimeError, match="own"):
        run(VirtualClock(), [call])
    assert gc.isenabled() is was_enabled


def test_nothing_to_call_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one call"):
        run(VirtualClock(), [])
