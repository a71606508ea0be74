"""The period of programs whose answer is known by construction."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from benchorch.errors import TraceError
from benchorch.trace.analysis import Analysis, analyze
from benchorch.trace.events import Events
from benchorch.trace.steps import find_steps, marked_ranges
from benchorch.trace.whatif.predict import predict
from benchorch.trace.whatif.reading import parse
from support.handmade_traces import Made, call, kernel, note, op, trace

US, MS = 1_000, 1_000_000


def asynchronous(steps: int = 6, host_ns: int = 2 * MS, kernel_ns: int = 10 * MS) -> Events:
    """The host launches one kernel a step and never waits for any."""
    made: list[Made] = []
    free_ns = 0
    for number in range(steps):
        at = number * host_ns
        start = max(at + 60 * US, free_ns)
        free_ns = start + kernel_ns
        made += [
            note(f"ProfilerStep#{number}", at, at + host_ns),
            op("aten::mm", at + 10 * US, at + host_ns - 10 * US),
            call("cudaLaunchKernel", at + 50 * US, at + 55 * US, correlation=number),
            kernel("gemm", start, free_ns, number),
        ]
    return trace(made)


def asked(analysis: Analysis, **change: object) -> int:
    return predict(analysis, parse({"changes": [change]}).changes).predicted_ns


def test_equal_asynchronous_steps_are_equally_long_however_far_the_host_is_ahead() -> None:
    analysis = analyze(asynchronous())
    assert analysis.steps.period_ns == 10 * MS
    assert set(analysis.steps.periods_ns) == {10 * MS}
    assert analysis.path.length_ns == analysis.path.length_ns == 50 * MS
    assert analysis.verdict.limit == "device compute"


def test_a_kernel_twice_as_fast_gives_what_it_would_give() -> None:
    analysis = analyze(asynchronous())
    assert asked(analysis, kernel="gemm", speedup=2) == 5 * MS
    assert asked(analysis, kernel="gemm", speedup=20) == pytest.approx(2 * MS, rel=0.01)
    assert asked(analysis, host=2) == 10 * MS


def test_steps_that_end_in_a_synchronisation_are_as_long_as_their_ranges() -> None:
    made = []
    for number in range(4):
        at = number * 3 * MS
        made += [
            note(f"ProfilerStep#{number}", at, at + 3 * MS),
            call("cudaLaunchKernel", at + 10 * US, at + 20 * US, correlation=number),
            kernel("gemm", at + 30 * US, at + 2 * MS, number),
            call("cudaDeviceSynchronize", at + 30 * US, at + 2 * MS + 5 * US),
        ]
    analysis = analyze(trace(made))
    assert analysis.steps.periods_ns.tolist() == [3 * MS] * 4


def test_a_long_first_step_is_set_aside_and_named() -> None:
    lengths = [900 * MS, 800 * MS, 10 * MS, 10 * MS, 11 * MS, 10 * MS]
    at, made = 0, []
    for number, length in enumerate(lengths):
        made += [note(f"ProfilerStep#{number}", at, at + length), op("aten::mm", at, at + length)]
        at += length
    found = analyze(trace(made))
    assert found.steps.period_ns == 10 * MS
    assert "initialisation" in " ".join(found.warnings)
    assert "first 2 steps" in " ".join(found.warnings)


def test_ranges_that_recur_mark_steps_where_no_tool_does() -> None:
    made = [note("init", 0, 500 * MS)]
    for number in range(4):
        at = (500 + 20 * number) * MS
        made += [note(f"step {number}", at, at + 20 * MS), op("aten::mm", at, at + 19 * MS)]
    events = trace(made)
    steps = find_steps(events)
    assert (steps.name, len(steps), steps.period_ns) == ("step *", 4, 20 * MS)
    assert [one.name for one in marked_ranges(events)] == ["init", "step *"]


def test_every_listed_range_may_be_chosen_whatever_characters_it_has() -> None:
    rows = [note(f"step[DECODE bs={at}]", at * MS, at * MS + MS) for at in range(6)]
    events = trace(rows, note("init [a-z]", 7 * MS, 8 * MS))
    listed = [one.name for one in marked_ranges(events)]
    assert listed == ["step[DECODE bs=*]", "init [a-z]"]
    assert [len(find_steps(events, name).start_ns) for name in listed] == [6, 1]


def test_a_rare_inner_range_marks_no_steps() -> None:
    made = [op("aten::mm", 0, 90 * MS)]
    made += [note("penalty", at * 10 * MS, at * 10 * MS + MS) for at in range(9)]
    assert find_steps(trace(made)).name == "trace"


def test_a_step_may_be_chosen_and_one_that_is_not_there_is_refused() -> None:
    events = asynchronous()
    assert len(find_steps(events, number=3)) == 1
    assert find_steps(events, "trace").name == "trace"
    with pytest.raises(TraceError, match="0 to 5"):
        find_steps(events, number=6)
    with pytest.raises(TraceError, match="--list-ranges"):
        find_steps(events, "nothing")


def test_work_of_a_device_without_launch_records_is_divided_among_the_steps() -> None:
    made = []
    for number in range(4):
        made += [
            note(f"ProfilerStep#{number}", number * MS, (number + 1) * MS),
            op("aten::mm", number * MS, number * MS + 900 * US),
            kernel("gemm", 100 * US + number * 10 * MS, (number + 1) * 10 * MS + 99 * US),
        ]
    found = analyze(trace(made))
    assert found.steps.period_ns == 10 * MS
    assert found.verdict.limit == "device compute"


def test_a_change_that_the_recorded_steps_are_too_few_for_is_bounded_by_the_busiest_lane() -> None:
    """Copies run ahead of the kernels: of faster kernels a few steps show more than lasts."""
    made, free_ns, copied_ns = [], 0, 0
    for number in range(6):
        at = number * 100 * US
        copied_ns += 3 * MS
        start = max(free_ns, 3 * MS if not number else 0)
        free_ns = start + 5 * MS
        made += [
            note(f"ProfilerStep#{number}", at, at + 100 * US),
            call("cudaMemcpyAsync", at + 10 * US, at + 15 * US, correlation=2 * number),
            call("cudaLaunchKernel", at + 50 * US, at + 55 * US, correlation=2 * number + 1),
            kernel("Memcpy HtoD", copied_ns - 3 * MS, copied_ns, 2 * number, stream=9),
            kernel("gemm", start, free_ns, 2 * number + 1),
        ]
    analysis = analyze(trace(made))
    assert analysis.steps.period_ns == 5 * MS
    assert asked(analysis, kernel="gemm", speedup=5) == pytest.approx(3 * MS, rel=0.01)


def test_batches_that_come_in_bursts_have_a_mean_period() -> None:
    at, made = 0, []
    for number, length in enumerate([41 * MS, MS, MS, MS] * 3):
        made += [note(f"ProfilerStep#{number}", at, at + length), op("aten::mm", at, at + length)]
        at += length
    found = analyze(trace(made))
    assert found.steps.period_ns == 11 * MS
    assert "differ from the median one" in " ".join(found.warnings)


def loading(step_ns: int, batch_ns: int, workers: int, steps: int = 19) -> Events:
    """Worker processes hand out a batch each every `batch_ns`, all of them at once."""
    made: list[Made] = []
    at = 0
    for number in range(steps):
        ready = batch_ns * (1 + number // workers)
        got = max(at + 20 * US, ready)
        made += [
            note(f"ProfilerStep#{number}", at, got + step_ns),
            note("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, got),
            op("aten::mm", got + 10 * US, got + step_ns),
        ]
        at = got + step_ns
    return trace(made)


@pytest.mark.parametrize("factor", [0.5, 1.5, 3.0, 6.0])
def test_worker_processes_need_the_same_time_for_a_batch_whatever_the_program_does(
    factor: float,
) -> None:
    analysis = analyze(loading(4 * MS, 24 * MS, 3))
    assert analysis.verdict.limit == "data loading"
    true_ns = max(24 * MS / 3, 4 * MS * factor + 20 * US)
    assert asked(analysis, op="aten::mm", speedup=1 / factor) == pytest.approx(true_ns, rel=0.05)


def test_interleaved_ranges_are_steps_from_one_to_the_next() -> None:
    made = []
    for at in range(0, 50 * MS, 10 * MS):
        made += [note("load", at, at + 6 * MS), note("train", at + 6 * MS, at + 10 * MS)]
    assert find_steps(trace(made)).period_ns == 10 * MS


def test_short_ranges_mark_steps_from_one_to_the_next() -> None:
    made = [note("tail", at, at + 2 * MS) for at in range(0, 60 * MS, 10 * MS)]
    assert find_steps(trace(made)).period_ns == 10 * MS


def test_the_first_steps_that_use_up_a_full_queue_are_set_aside() -> None:
    ends = [0, 3, 6, 9, *range(19, 90, 10)]
    made = [note(f"ProfilerStep#{a}", a * MS, b * MS) for a, b in pairwise(ends)]
    steps = find_steps(trace(made))
    assert (steps.first, steps.period_ns) == (3, 10 * MS)
    assert "what was made before" in " ".join(steps.notes)


def test_steps_longer_and_shorter_by_turns_are_as_long_as_their_mean() -> None:
    ends = [0]
    for number in range(9):
        ends.append(ends[-1] + (9 if number % 2 else 11))
    made = [note(f"ProfilerStep#{a}", a * MS, b * MS) for a, b in pairwise(ends)]
    assert find_steps(trace(made)).period_ns == 10 * MS


def test_steps_by_turns_but_for_one_are_as_long_as_their_mean() -> None:
    lengths = [26, 29, 44, 28, 44, 26, 43, 30, 42, 28]
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + length)
    made = [note(f"ProfilerStep#{a}", a * MS, b * MS) for a, b in pairwise(ends)]
    assert find_steps(trace(made)).period_ns == 34 * MS


def test_a_single_thread_without_a_loader_uses_nothing_that_was_made_before_it() -> None:
    at, made = 0, []
    for number, length in enumerate([2, 2, 14, 2, 14, 5, 18, 2, 22, 2]):
        end = at + length * MS
        made += [note(f"ProfilerStep#{number}", at, end), op("aten::mm", at, end)]
        at = end
    steps = find_steps(trace(made))
    assert (steps.first, steps.end) == (0, 10)
    assert "what was made before" not in " ".join(steps.notes)


def test_rows_of_steps_that_differ_sum_to_the_period() -> None:
    at, made = 0, []
    for number, length in enumerate([10, 10, 10, 10, 24, 10]):
        end = at + length * MS
        made += [note(f"ProfilerStep#{number}", at, end), op("aten::mm", at, end)]
        at = end
    found = analyze(trace(made))
    rows = found.tables["operators"]
    assert found.steps.period_ns == 10 * MS
    assert sum(row.on_path_ns for row in rows) == pytest.approx(10 * MS, abs=len(rows))


def test_an_interval_is_of_the_change_not_of_how_much_the_steps_differ() -> None:
    """Every step spends half of its time in the product, however long it is."""
    at, made = 0, []
    for number, length in enumerate((10, 14, 9, 16, 11, 13, 8, 15)):
        middle = at + length * MS // 2
        made += [note(f"ProfilerStep#{number}", at, at + length * MS)]
        made += [op("aten::mm", at, middle), op("aten::add", middle, at + length * MS)]
        at += length * MS
    analysis = analyze(trace(made))
    changes = parse({"changes": [{"op": "aten::mm", "speedup": 2}]}).changes
    found = predict(analysis, changes)
    assert found.predicted_ns == pytest.approx(0.75 * analysis.steps.period_ns, rel=0.01)
    assert found.reasons["steps"] < 0.01 * analysis.steps.period_ns
    assert found.high_ns - found.low_ns < 0.3 * found.predicted_ns


def test_bursts_have_the_mean_of_whole_cycles() -> None:
    took_ms = [3, 3, 1, 1, 20, 1, 1, 20, 1, 1, 20, 1]  # the recording begins with what was ready
    ends = np.cumsum(took_ms) * MS
    made = [
        note(f"ProfilerStep#{number}", end - took * MS, end)
        for number, (end, took) in enumerate(zip(ends.tolist(), took_ms, strict=True))
    ]
    steps = find_steps(trace(made))
    assert steps.period_ns == pytest.approx(22 * MS / 3, abs=1)
