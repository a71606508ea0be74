"""What one process measures, on clocks whose truth is known."""

from __future__ import annotations

import gc
import itertools
import math
import random
import sys
import time
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchorch.cli.commands.doctor import timer_accuracy
from benchorch.cli.commands.doctor.timer_accuracy import Agreement, agreement
from benchorch.domain.measurement import Observations, ProcessRecord
from benchorch.domain.result import Outcome, TrialResult
from benchorch.errors import MeasureError
from benchorch.hardware import cuda
from benchorch.hardware.cpu import CpuClock
from benchorch.hardware.cuda import CudaClock
from benchorch.interfaces.hardware import Clock, Timing
from benchorch.interfaces.scenario import Scenario
from benchorch.interfaces.stopping import Stopping
from benchorch.results.metrics.latency import median_ms, throughput
from benchorch.results.metrics.summary import summarise
from benchorch.scenarios import series
from benchorch.scenarios.multi_stream import MultiStream
from benchorch.scenarios.offline import Offline
from benchorch.scenarios.single_stream import SingleStream
from benchorch.stopping.precision import Precision
from benchorch.trial.measure import measure
from benchorch.units import ms_to_ns
from support.clocks import Costs, VirtualClock
from support.cuda import Event, install, issues
from support.fakes import Bench, Blocks

READS_PER_BLOCK = 1000
Call = Callable[[], object]


def record_of(
    clock: Clock,
    calls: Sequence[Call],
    *,
    scenario: Scenario | None = None,
    stopping: Stopping | None = None,
    cold_caches: bool = False,
) -> ProcessRecord:
    """What one process would hand over."""
    seen = measure(
        calls,
        hardware=Bench(clock),
        scenario=scenario or SingleStream(),
        stopping=stopping or Blocks(60),
        items_per_call=1,
        cold_caches=cold_caches,
    )
    return ProcessRecord(
        load_s=1.0,
        first_call_s=1.0,
        observations=seen.observations,
        steady_from=seen.steady_from,
        calibration=seen.calibration,
        peak_rss_bytes=1,
        facts={},
    )


def warnings_of(record: ProcessRecord) -> tuple[str, ...]:
    result = TrialResult(trial_id="a", labels={}, outcome=Outcome.OK, processes=(record,))
    return summarise(result, None).warnings


@settings(max_examples=200)
@given(
    step_ns=st.integers(1, 16_000_000),
    cost_ns=st.floats(50, 1e9),
    read_ns=st.floats(0, 1000),
)
@example(step_ns=1, cost_ns=50.0, read_ns=40.0)
@example(step_ns=16_000_000, cost_ns=50.0, read_ns=40.0)
@example(step_ns=16_000_000, cost_ns=1e9, read_ns=1000.0)
def test_a_block_dwarfs_the_clock_and_is_no_longer_than_that_takes(
    step_ns: int, cost_ns: float, read_ns: float
) -> None:
    clock = VirtualClock(step_ns=step_ns, read_ns=read_ns, turn_ns=0)
    blocks = series.sized([Costs(clock, cost_ns)], clock, clock.calibrate())
    series.fill(blocks, Blocks(12))
    observed = blocks.observations(items_per_call=1)
    least_ns = READS_PER_BLOCK * max(step_ns, read_ns)
    block_ns = observed.calls_per_block * cost_ns
    assert block_ns + read_ns >= least_ns
    assert observed.calls_per_block == 1 or block_ns <= 1.02 * least_ns + step_ns * 3 + cost_ns
    quantised_ns = float(np.median(observed.durations_ns))
    assert quantised_ns == pytest.approx(block_ns + read_ns, abs=1e-3 * block_ns)


def test_the_clock_biases_a_call_by_less_than_a_thousandth_and_the_loop_is_on_record() -> None:
    clock = VirtualClock(read_ns=40, turn_ns=9)
    record = record_of(clock, [Costs(clock, 10_000)])
    per_call_ns = record.observations.durations_ns[0] / record.observations.calls_per_block
    assert record.observations.calls_per_block == 4
    loop_ns = record.calibration.loop_turn_ns
    assert loop_ns == 9, "not subtracted: told"
    assert 0 < per_call_ns - loop_ns - 10_000 <= 10


@pytest.mark.parametrize(("cost_ns", "calls"), [(50_000, 1), (30_000, 2), (300, 130)])
def test_calls_are_timed_one_by_one_only_where_they_are_long_enough(
    cost_ns: float, calls: int
) -> None:
    clock = VirtualClock()
    record = record_of(clock, [Costs(clock, cost_ns)])
    assert record.observations.calls_per_block == calls
    assert any("too short for this clock" in each for each in warnings_of(record)) == (calls > 1)


def test_a_short_call_that_must_be_timed_alone_is_flagged() -> None:
    clock = VirtualClock()
    record = record_of(clock, [Costs(clock, 10_000)], cold_caches=True)
    assert record.observations.calls_per_block == 1
    assert any("reading the clock" in each for each in warnings_of(record))


def agreement_on(
    monkeypatch: pytest.MonkeyPatch,
    timed: Callable[[Call, int], list[int]] | None = None,
) -> Agreement:
    """The comparison with a bare loop that costs exactly what its calls cost."""
    clock = VirtualClock(read_ns=40, turn_ns=9)
    monkeypatch.setattr(timer_accuracy, "CpuClock", lambda: clock)
    monkeypatch.setattr(timer_accuracy, "bare_blocks_ns", exact_blocks_ns)
    return agreement(Costs(clock, 10_000), pairs=20, timed=timed)


def exact_blocks_ns(call: Call, repeats: int, slice_ns: float) -> list[int]:
    assert isinstance(call, Costs)
    return [round(repeats * call.cost_ns)] * 20


def test_timed_blocks_agree_with_a_bare_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    found = agreement_on(monkeypatch)
    assert found.agrees
    assert found.ratio.value == pytest.approx(1 + 9 / 10_000 + 40 / 40_000, abs=1e-4)


def test_both_loops_time_blocks_of_one_length_when_the_machine_has_become_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of noisy calls, the lowest tenth of short blocks lies below that of long ones."""
    clock, rng, made = VirtualClock(), random.Random(1), itertools.count()

    def noisy() -> None:
        slow = 10 if next(made) < 60 else 1
        clock.spend(3000 * slow * (1 + rng.expovariate(2)))

    def bare_blocks_ns(call: Call, repeats: int, slice_ns: float) -> list[int]:
        return [clock.time_block(call, repeats).wall for _ in range(100)]

    monkeypatch.setattr(timer_accuracy, "CpuClock", lambda: clock)
    monkeypatch.setattr(timer_accuracy, "bare_blocks_ns", bare_blocks_ns)
    assert agreement(noisy, pairs=60).ratio.value == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("excess_ratio", [0.1, 0.05, -0.05])
def test_timing_that_is_off_by_a_twentieth_is_noticed(
    monkeypatch: pytest.MonkeyPatch, excess_ratio: float
) -> None:
    def timed(call: Call, repeats: int) -> list[int]:
        return [round(block * (1 + excess_ratio)) for block in exact_blocks_ns(call, repeats, 0)]

    found = agreement_on(monkeypatch, timed)
    assert found.ratio.value == pytest.approx(1 + excess_ratio)
    assert not found.agrees


@pytest.mark.parametrize("scenario", [SingleStream(), MultiStream(), Offline()])
@pytest.mark.parametrize("wrong", [-1, 0, 39, math.nan, math.inf, -math.inf, 2**63])
def test_a_duration_that_cannot_be_is_an_instrument_fault(scenario: Scenario, wrong: float) -> None:
    class Faulty(VirtualClock):
        blocks = 0

        def time_block(self, call: Call, repeats: int, *, at_once: bool = False) -> Timing:
            self.blocks += 1
            right = VirtualClock.time_block(self, call, repeats, at_once=at_once)
            return Timing(wrong) if self.blocks == 20 else right  # type: ignore[arg-type]

    clock = Faulty()
    with pytest.raises(MeasureError, match="clock") as caught:
        record_of(clock, [Costs(clock, 1e6)], scenario=scenario)
    assert caught.value.kind == "instrument_fault"


@pytest.mark.parametrize("part", ["issue", "device", "cpu"])
def test_a_negative_part_of_a_duration_is_an_instrument_fault(part: str) -> None:
    class Faulty(VirtualClock):
        def time_block(self, call: Call, repeats: int, *, at_once: bool = False) -> Timing:
            return Timing(1_000_000)._replace(**{part: -1})

    with pytest.raises(MeasureError, match="part of a block took -1 ns"):
        record_of(Faulty(), [int])


@pytest.mark.parametrize("scenario", [SingleStream(), MultiStream(), Offline()])
def test_a_clock_that_stalls_is_an_instrument_fault(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "STALLED_AFTER_CALLS", 10_000)

    class Stalled(VirtualClock):
        def now_ns(self) -> int:
            return 5

    clock = Stalled()
    with pytest.raises(MeasureError, match="stands still") as caught:
        record_of(clock, [Costs(clock, 1e6)], scenario=scenario)
    assert caught.value.kind == "instrument_fault"


def test_a_clock_that_steps_back_is_an_instrument_fault() -> None:
    class Stepping(VirtualClock):
        reads = 0

        def now_ns(self) -> int:
            self.reads += 1
            self.true_ns -= 5e6 if self.reads == 30 else 0
            return VirtualClock.now_ns(self)

    clock = Stepping()
    with pytest.raises(MeasureError) as caught:
        record_of(clock, [Costs(clock, 1e6)])
    assert caught.value.kind == "instrument_fault"


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, 2**63])
def test_no_duration_that_cannot_be_can_be_stored(wrong: float) -> None:
    with pytest.raises(ValueError, match="durations_ns: each above 0 and finite"):
        Observations(
            durations_ns=(1, wrong),  # type: ignore[arg-type]
            started_ns=(0, 1),
            calls_per_block=1,
            items_per_call=1,
        )


def test_the_device_s_milliseconds_become_nanoseconds_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = install(monkeypatch)
    first, last = Event(device, stamp_ns=0.0), Event(device, stamp_ns=2_854_000.0)
    assert first.elapsed_time(last) == pytest.approx(2.854)
    assert cuda._between_ns(first, last) == 2_854_000  # type: ignore[arg-type]
    assert ms_to_ns(2.854) == 2_854_000


def test_events_in_reverse_are_an_instrument_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    device = install(monkeypatch)
    first, last = Event(device, stamp_ns=0.0), Event(device, stamp_ns=2_854_000.0)
    with pytest.raises(MeasureError, match=r"-2\.854 ms") as caught:
        cuda._between_ns(last, first)  # type: ignore[arg-type]
    assert caught.value.kind == "instrument_fault"


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf")])
def test_a_device_time_that_cannot_be_is_an_instrument_fault(
    monkeypatch: pytest.MonkeyPatch, scale: float
) -> None:
    device = install(monkeypatch)
    device.scale = scale
    with pytest.raises(MeasureError, match="events contradict") as caught:
        CudaClock().time_block(issues(device, 5_000, 2e6), 1)
    assert caught.value.kind == "instrument_fault"


def test_work_that_a_device_finishes_later_counts_and_the_host_s_share_is_told_apart() -> None:
    clock = VirtualClock(read_ns=0, turn_ns=0, has_device=True)
    observed = record_of(clock, [lambda: clock.issue(1_000, 2_000_000)]).observations
    assert set(observed.durations_ns) == {2_001_000}
    assert set(observed.issue_ns) == {1_000}
    assert set(observed.device_ns) == {2_000_000}


def test_short_calls_are_each_waited_for() -> None:
    clock = VirtualClock(turn_ns=0, has_device=True)
    record = record_of(clock, [lambda: clock.issue(1_000, 9_000)])
    calls = record.observations.calls_per_block
    assert calls > 1
    assert set(record.observations.durations_ns) == {calls * 10_000 + 40}
    assert record.observations.issue_ns == record.observations.device_ns == ()


def test_no_more_than_two_calls_of_a_query_are_under_way() -> None:
    clock, depths = VirtualClock(has_device=True), list[int]()

    def issue() -> None:
        ahead_ns = max(0.0, clock.free_ns - clock.true_ns)
        clock.issue(1_000, 2_000_000)
        depths.append(math.ceil(ahead_ns / 2_000_000) + 1)

    observed = record_of(clock, [issue], scenario=MultiStream(samples_per_query=5)).observations
    assert max(depths) == 2
    assert set(observed.durations_ns) == {observed.durations_ns[0]}
    assert observed.durations_ns[0] == pytest.approx(5 * 2_000_000, rel=1e-3)


def test_offline_counts_what_the_device_has_done_not_what_it_was_given() -> None:
    clock = VirtualClock(read_ns=0, turn_ns=0, has_device=True)
    record = record_of(clock, [lambda: clock.issue(1_000, 2_000_000)], scenario=Offline())
    observed = record.observations
    calls = observed.calls_per_block
    assert observed.at_once
    assert set(observed.durations_ns) == {1_000 + calls * 2_000_000}
    assert set(observed.issue_ns) == {calls * 1_000}
    per_s = calls / (observed.durations_ns[0] / 1e9)
    assert throughput([record])[0] == pytest.approx(per_s, rel=1e-12)
    assert per_s == pytest.approx(500, rel=1e-4)


@pytest.mark.parametrize("compiled_at", [(0, 36), (0, 1), (36,)])
def test_a_second_of_compiling_is_in_no_steady_state_and_on_record(
    compiled_at: tuple[int, ...],
) -> None:
    clock, made = VirtualClock(), itertools.count()

    def call() -> None:
        if next(made) in compiled_at:
            clock.spend(1e9)
            clock.happens(compilations=1)
        clock.spend(5e6)

    record = record_of(clock, [call], stopping=Precision())
    assert record.observations.events == {"compilation": compiled_at}
    assert record.steady_from is not None
    assert record.steady_from > compiled_at[-1]
    assert sum(record.observations.durations_ns[record.steady_from :]) >= 0.5e9
    assert median_ms([record])[0] == pytest.approx(5, rel=1e-3)


def test_a_model_that_is_compiled_at_every_call_ends_without_a_steady_state() -> None:
    clock = VirtualClock()

    def call() -> None:
        clock.spend(1e8)
        clock.happens(compilations=1)

    record = record_of(clock, [call], stopping=Precision())
    assert record.steady_from is None
    assert sum(record.observations.durations_ns) < 60e9


@pytest.mark.parametrize(
    ("event", "count", "word"),
    [
        ("collection", "collections", "arbage"),
        ("compilation", "compilations", "compiled"),
        ("allocator_retry", "allocator_retries", "allocator"),
    ],
)
def test_what_happens_inside_the_window_is_in_the_record_and_in_its_warnings(
    event: str, count: str, word: str
) -> None:
    clock, made = VirtualClock(), itertools.count()

    def call() -> None:
        clock.spend(5e6)
        if next(made) == 40:
            clock.happens(**{count: 1})

    record = record_of(clock, [call], stopping=Blocks(100))
    assert record.observations.events == {event: (40,)}
    assert any(word in each for each in warnings_of(record))


def test_the_real_clock_sees_the_collector_and_the_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiler = types.ModuleType("torch._dynamo.utils")
    counters: dict[str, Counter[str]] = defaultdict(Counter)
    compiler.counters = counters  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", compiler)
    made = itertools.count()

    def call() -> None:
        time.sleep(0.006)  # longer than blocks are timed together for
        number = next(made)
        if number == 20:
            gc.collect()
        counters["frames"]["total"] += number == 30

    observed = record_of(CpuClock(), [call], stopping=Blocks(40)).observations
    assert observed.events == {"collection": (20,), "compilation": (30,)}
