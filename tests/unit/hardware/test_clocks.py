from __future__ import annotations

import itertools
import sys
import types

import pytest

from benchorch.errors import MeasureError
from benchorch.hardware.cpu import CpuClock
from benchorch.hardware.cuda import CudaClock
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

    shortest = min(clock.time_block(spin, 3).wall for _ in range(20))
    assert 3_000_000 <= shortest < 6_000_000


def test_calibration_finds_what_a_read_costs() -> None:
    found = CpuClock().calibrate()
    assert found.step_ns > 0
    assert 0 <= found.pair_cost_ns < 100_000
    assert 0 < found.loop_turn_ns < 10_000


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


def test_the_gpu_is_drained_before_each_of_the_two_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    cuda = types.ModuleType("torch.cuda")
    cuda.synchronize = lambda: seen.append("drain")  # type: ignore[attr-defined]
    torch = types.ModuleType("torch")
    torch.cuda = cuda  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.cuda", cuda)
    monkeypatch.setattr(
        "benchorch.hardware.cuda.perf_counter_ns", lambda: seen.append("read") or len(seen)
    )
    timing = CudaClock().time_block(lambda: seen.append("call"), 2)
    assert seen == ["drain", "read", "call", "call", "drain", "read"]
    assert timing.wall == 4
