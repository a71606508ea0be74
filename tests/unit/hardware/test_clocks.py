from __future__ import annotations

import gc
import itertools
import time

import pytest

from benchorch.errors import MeasureError
from benchorch.hardware.cpu import CpuClock
from benchorch.hardware.reading import calibrate_reads


def test_a_block_holds_exactly_its_calls() -> None:
    calls: list[int] = []
    CpuClock().time_block(lambda: calls.append(1), 17)
    assert len(calls) == 17


def test_a_block_takes_as_long_as_its_calls() -> None:
    clock = CpuClock()

    def spin() -> None:
        end = clock.now_ns() + 1_000_000
        while clock.now_ns() < end:
            pass

    for _ in range(20):
        began_ns = clock.now_ns()
        wall_ns = clock.time_block(spin, 3).wall
        assert 3_000_000 <= wall_ns <= clock.now_ns() - began_ns


def test_calibration_finds_what_a_read_costs() -> None:
    found = CpuClock().calibrate()
    assert found.step_ns > 0
    assert found.pair_cost_ns >= 0
    assert found.loop_turn_ns > 0


def test_calibration_of_a_known_clock_is_exact() -> None:
    ticks = itertools.count(0, 40)
    found = calibrate_reads(lambda: next(ticks))
    assert (found.pair_cost_ns, found.step_ns) == (40.0, 40.0)


def test_a_coarse_clock_shows_its_step_and_hides_its_cost() -> None:
    ticks = itertools.count(0, 40)
    found = calibrate_reads(lambda: next(ticks) // 1_000 * 1_000)
    assert (found.pair_cost_ns, found.step_ns) == (0.0, 1_000.0)


@pytest.mark.parametrize(("step", "said"), [(0, "stands still"), (-5, "steps back")])
def test_a_clock_that_stands_still_or_steps_back_is_refused(step: int, said: str) -> None:
    ticks = itertools.count(10**9, step)
    with pytest.raises(MeasureError, match=said) as caught:
        calibrate_reads(lambda: next(ticks))
    assert caught.value.kind == "instrument_fault"


def test_preemptions_never_decrease() -> None:
    clock = CpuClock()
    before = clock.counts().preemptions
    assert clock.counts().preemptions >= before >= 0


def test_a_block_tells_the_cpu_time_of_its_calls() -> None:
    timing = CpuClock().time_block(lambda: sum(range(2_000_000)), 1)
    assert timing.cpu is not None
    assert timing.cpu > 0
    assert timing.issue is timing.device is None


def test_time_asleep_is_no_cpu_time() -> None:
    timing = CpuClock().time_block(lambda: time.sleep(0.02), 1)
    assert timing.wall >= 20_000_000
    assert timing.cpu is not None
    assert timing.cpu < timing.wall


def test_runs_of_the_garbage_collector_are_counted() -> None:
    clock = CpuClock()
    before = clock.counts().collections
    gc.collect()
    gc.collect(0)
    assert clock.counts().collections >= before + 2  # another thread may cause one
    callbacks = len(gc.callbacks)
    clock.counts()
    assert len(gc.callbacks) == callbacks, "installed once"


@pytest.mark.parametrize("whole", [False, True])
def test_compilations_and_later_versions_are_counted_and_cached_calls_are_not(whole: bool) -> None:
    import torch

    torch.compiler.reset()  # what another test has compiled is compiled
    clock = CpuClock()

    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    compiled = torch.compile(double, backend="eager", fullgraph=whole, dynamic=False)

    def rise(size: int) -> int:
        before = clock.counts().compilations
        compiled(torch.zeros(size))
        return clock.counts().compilations - before

    assert rise(2) > 0
    assert rise(2) == 0
    assert rise(3) > 0, "another shape is another version"
    assert [rise(2), rise(3), rise(2)] == [0, 0, 0]
