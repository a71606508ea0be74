"""Verdicts of programs whose bottleneck is known by construction."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from benchorch.trace.analysis import analyze
from benchorch.trace.events import Category, Events
from benchorch.trace.ranks import merged
from benchorch.trace.verdict import ProgramVerdict
from support.handmade_traces import Made, call, kernel, note, op, trace

US, MS = 1_000, 1_000_000


def frame(name: str, start_ns: int, end_ns: int, lane: str = "main") -> Made:
    return op(name, start_ns, end_ns, category=Category.PYTHON, lane=lane)


def judged(*made: Made, **options: object) -> ProgramVerdict:
    return analyze(trace(*made), **options).verdict  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("<built-in function sleep>", "sleep and lock"),
        ("<built-in method acquire of _thread.lock object at 0x7f>", "outside"),
        ("<built-in method write of _io.BufferedWriter object at 0x7f>", "input/output"),
        ("<built-in method fsync>", "input/output"),
        ("<built-in function waitpid>", "outside"),
        ("<built-in function openssl_sha256>", "outside"),
        ("<built-in method run of PyCapsule object at 0x7f>", "outside"),
        ("<built-in method execute of sqlite3.Connection object at 0x7f>", "input/output"),
        ("<built-in method sort of list object at 0x7f>", "python"),
        ("<built-in method replace of str object at 0x7f>", "python"),
        ("<built-in method flush of _bz2.BZ2Compressor object at 0x7f>", "outside"),
        ("<built-in function sorted>", "python"),
        ("train.py(12): tokenize", "python"),
    ],
)
def test_a_frame_of_python_names_the_cause(name: str, limit: str) -> None:
    found = judged(
        frame("train.py(3): step", 0, 10 * MS), op("aten::mm", 0, MS), frame(name, MS, 10 * MS)
    )
    assert found.limit == limit
    assert found.cause["unknown"] == 0
    assert "operators" not in found.advice or limit == "host framework"


def test_kernels_that_compiled_code_calls_compute() -> None:
    found = judged(
        frame("train.py(3): step", 0, 10 * MS),
        op("## Call CompiledFxGraph fab12 ##", MS, 10 * MS),
        frame("<built-in function kernel>", 2 * MS, 10 * MS),
    )
    assert found.limit == "device compute"


def test_a_checkpoint_is_written_by_input_and_output() -> None:
    found = judged(
        frame("train.py(3): save", 0, 10 * MS),
        frame("torch/serialization.py(811): __init__", 0, 4 * MS),
        frame("<built-in method write_record of PyTorchFileWriter object>", 5 * MS, 10 * MS),
    )
    assert found.limit == "input/output"


def test_a_long_gap_without_stacks_has_no_verdict_and_says_what_to_record() -> None:
    found = judged(op("aten::mm", 0, MS), op("aten::mm", 9 * MS, 10 * MS))
    assert found.limit == "inconclusive"
    assert found.cause["unknown"] == pytest.approx(0.8)
    assert found.length["recorded"] == 1
    assert "with_stack=True" in " ".join(found.record)
    assert found.advice == ""


def test_what_a_loader_calls_is_loading() -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    found = judged(
        note(loader, 0, 8 * MS), op("aten::stack", MS, 7 * MS), op("aten::mm", 8 * MS, 10 * MS)
    )
    assert found.limit == "data loading"
    assert found.shares["data loading"] == pytest.approx(0.8)


def test_a_collective_on_the_host_is_communication() -> None:
    found = judged(op("aten::mm", 0, MS), op("gloo:all_reduce", MS, 9 * MS))
    assert found.limit == "communication"
    assert "all ranks" in " ".join(found.record)


@pytest.mark.parametrize("around", [op, note])
def test_the_host_that_launches_a_collective_is_not_communication(around: Callable) -> None:
    made = []
    for number in range(20):
        at = 100 * US * number
        made += [
            around("c10d::allreduce_", at, at + 90 * US),
            op("record_param_comms", at + 10 * US, at + 85 * US),
            call("cudaLaunchKernelExC", at + 70 * US, at + 75 * US, correlation=number),
            kernel("ncclDevKernel_AllReduce", at + 80 * US, at + 88 * US, number),
        ]
    assert judged(*made).limit == "host framework"
    beside = [op("gloo:all_reduce", 2 * MS, 9 * MS)]
    assert judged(*made, *beside).limit == "communication"


def waited_for(steps: int = 10) -> list[Made]:
    """Steps of a launch and a wait for its kernel, which takes nearly all of the time."""
    made = []
    for at in range(0, steps * MS, MS):
        made += [
            note("step", at, at + MS),
            call("cudaLaunchKernel", at + US, at + 5 * US, correlation=at),
            call("cudaDeviceSynchronize", at + 6 * US, at + MS - 2 * US),
            kernel("gemm", at + 9 * US, at + MS - 5 * US, at),
        ]
    return made


def test_a_trace_that_lacks_the_work_of_its_launches_has_no_verdict_about_the_host() -> None:
    made = waited_for()
    kernels = [one for one in made if one.category == Category.KERNEL]
    for lost in (kernels, kernels[5:]):
        found = analyze(trace([one for one in made if one not in lost]))
        assert found.verdict.limit == "inconclusive"
        assert f"{len(lost)} of 10 launches have no device work" in found.verdict.sentence
        assert f"{len(lost)} of 10 launches" in " ".join(found.warnings)
    whole = analyze(trace(made))
    assert whole.verdict.limit == "device compute"
    assert whole.warnings == ()


def test_nodes_on_a_device_without_its_kernels_have_no_verdict_about_the_host() -> None:
    made = [op("model_run", at, at + MS, category=Category.SESSION) for at in range(0, 9 * MS, MS)]
    made += [
        op("/m/MatMul", at + US, at + 9 * US, category=Category.NODE) for at in range(0, 9 * MS, MS)
    ]
    for provider, limit in (("Dml", "inconclusive"), ("CPU", "host framework")):
        given = {"provider": f"{provider}ExecutionProvider"}
        found = analyze(
            dataclasses.replace(
                trace(made), details=lambda these, given=given: dict.fromkeys(these, given)
            )
        )
        assert found.verdict.limit == limit
        assert ("no device work of DmlExecutionProvider" in found.verdict.sentence) == (
            limit != "host framework"
        )


def test_reading_a_value_of_a_device_that_is_not_recorded_waits_outside() -> None:
    def steps(took_ns: int) -> list[Made]:
        return [
            op(name, at + begin, at + end)
            for at in range(0, 20 * MS, MS)
            for name, begin, end in (
                ("aten::mm", 0, 50 * US),
                ("aten::item", 50 * US, 51 * US + took_ns),
                ("aten::_local_scalar_dense", 50 * US + 500, 50 * US + 500 + took_ns),
            )
        ]

    assert judged(*steps(940 * US)).limit == "outside"
    assert judged(*steps(US), dilation_ratio=1.0).shares.get("outside", 0.0) == 0


@pytest.mark.parametrize(("name", "tried"), [("hipGraphLaunch", True), ("hipLaunchKernel", False)])
def test_launching_graphs_is_not_advised_to_who_does(name: str, tried: bool) -> None:
    made = [
        [call(name, at, at + 90 * US, correlation=at), kernel("k", at + 91 * US, at + 95 * US, at)]
        for at in range(0, 2 * MS, 100 * US)
    ]
    found = judged(*made)
    assert found.limit == "host framework"
    assert ("cudagraphs" not in found.advice) == tried


@pytest.mark.parametrize(
    ("file", "function", "limit"),
    [
        ("bench_dataloader.py", "main", "device compute"),
        ("my/data_loader/train.py", "main", "device compute"),
        ("bench_allreduce.py", "main", "device compute"),
        ("train.py", "small_reduce", "device compute"),
        ("train.py", "_get_batch_logps", "device compute"),
        ("train.py", "_get_batch", "data loading"),
        ("train.py", "next_from_dataloader", "data loading"),
        ("torch/utils/data/dataloader.py", "__next__", "data loading"),
        ("accelerate/data_loader.py", "__iter__", "data loading"),
        ("torch/distributed/distributed_c10d.py", "all_reduce", "communication"),
        ("train.py", "customAllReduce", "communication"),
    ],
)
def test_of_python_the_function_counts_and_the_file_only_if_it_is_a_loaders(
    file: str, function: str, limit: str
) -> None:
    found = judged(frame(f"{file}(12): {function}", 0, 10 * MS), op("aten::mm", 0, 9 * MS))
    assert found.limit == limit


def test_a_trace_without_known_categories_has_no_verdict() -> None:
    events = trace([op("Source", at * MS, at * MS + MS) for at in range(9)])
    unknown = np.full_like(events.category, Category.OTHER)
    found = analyze(dataclasses.replace(events, category=unknown))
    assert found.verdict.limit == "inconclusive"
    assert "No event has a category of a known profiler" in " ".join(found.warnings)
    assert "known profiler" not in " ".join(analyze(events).warnings)


def test_operators_too_short_to_compute_are_the_framework() -> None:
    made = [op("aten::add", at * 5 * US, at * 5 * US + 4 * US) for at in range(200)]
    assert judged(*made).limit == "host framework"


def test_a_profile_many_times_slower_than_the_program_is_void() -> None:
    found = judged(op("aten::mm", 0, MS), dilation_ratio=43.0)
    assert found.limit == "void"
    assert "43.0 times" in found.sentence
    assert (found.largest, found.largest_gain_ratio) == ("", 0.0)


def test_polling_is_waiting_for_the_device() -> None:
    made = [
        note("ProfilerStep#0", 0, 6 * MS),
        call("cudaLaunchKernel", 10 * US, 15 * US, correlation=1),
        kernel("gemm", 20 * US, 5 * MS, 1),
    ]
    made += [call("cudaEventQuery", at * 100 * US, at * 100 * US + 2 * US) for at in range(1, 51)]
    found = judged(*made)
    assert found.limit == "device compute"
    assert found.gains["device compute"] > 0.7


@pytest.mark.parametrize("name", ["cudaFree", "cudaMalloc", "cuMemFree_v2"])
def test_an_allocation_that_returns_with_the_device_idle_waited_for_it(name: str) -> None:
    found = judged(
        call("cudaLaunchKernel", 0, 5 * US, correlation=1),
        kernel("gemm", 10 * US, 5 * MS, 1),
        call(name, 20 * US, 5 * MS + 50 * US),
    )
    assert found.limit == "device compute"
    assert found.gains["device compute"] > 0.9


def test_backward_in_bursts_has_one_join_and_keeps_its_pauses() -> None:
    """The thread of a backward pass pauses twice: nothing is invented to explain it."""
    made = [note("ProfilerStep#0", 0, 10 * MS)]
    made += [op("aten::mm", 0, 100 * US, sequence=1)]
    name = "autograd::engine::evaluate_function: MmBackward0"
    for at, sequence in ((MS, 1), (4 * MS, NOTHING_), (7 * MS, NOTHING_)):
        made.append(
            op(name, at, at + 2 * MS, lane="backward", sequence=sequence, forward_lane="main")
        )
    made.append(op("aten::add_", 9_100 * US, 10 * MS))
    analysis = analyze(trace(*made))
    rows = {row.name: row for row in analysis.tables["operators"]}
    assert rows[name].on_path_ns == 6 * MS
    assert rows[name].gain_ns == 6 * MS


NOTHING_ = -1


def test_waiting_in_a_with_for_a_lock_leads_to_what_its_holder_does() -> None:
    """The holder runs Python alone, and a `with` leaves no frame."""
    free = "<built-in method acquire of _thread.lock object at 0x7f>"
    found = judged(
        frame("train.py(3): step", 0, 10 * MS),
        op("aten::mm", 0, MS),
        op("aten::mm", 8 * MS + 50_000, 10 * MS),
        frame("worker.py(5): hold", 0, 10 * MS, "worker"),
        frame("<built-in function sleep>", 500_000, 8 * MS, "worker"),
        frame(free, 8 * MS + 20_000, 10 * MS, "worker"),
    )
    assert found.limit == "sleep and lock"
    assert found.largest == "sleep, called by worker.py(5): hold"


def test_the_collective_of_a_process_group_waits_for_the_rank_that_calls_it_last() -> None:
    def rank(late_ns: int) -> Events:
        made = []
        for at in range(0, 60 * MS, 20 * MS):
            called = at + late_ns
            made += [
                frame("train.py(3): step", at, at + 18 * MS),
                frame("<built-in function sleep>", at + 10_000, called),
                op("c10d::allreduce_", called + 10_000, called + 60_000),
                note("gloo:all_reduce", called + 90_000, at + 16 * MS, lane="gloo"),
                frame(
                    "<built-in method wait of pybind11_builtins.x>",
                    called + 70_000,
                    at + 16 * MS + 40_000,
                ),
            ]
        return trace(made)

    found = analyze(merged([rank(2 * MS), rank(15 * MS)]), range_name="*: step").verdict
    assert found.limit == "waiting for a straggler"
    assert found.shares["sleep and lock"] > 0.1


def test_a_range_that_has_most_of_the_unknown_time_is_named() -> None:
    made = [note("load", at, at + 10 * MS) for at in range(0, 50 * MS, 10 * MS)]
    assert "most of it in 'load'" in judged(*made).sentence


def test_reading_what_another_process_sends_is_outside_and_a_loop_with_timers_sleeps() -> None:
    def waiting(around: str, *more: Made) -> str:
        poll = frame("<built-in method poll of select.epoll object at 0x7f>", MS, 10 * MS)
        return judged(
            frame("train.py(3): step", 0, 10 * MS), frame(around, MS, 10 * MS), poll, *more
        ).limit

    timer = frame("asyncio/tasks.py(637): sleep", 0, 1_000)
    assert waiting("server.py(4): serve") == "input/output"
    assert waiting("multiprocessing/connection.py(439): _poll") == "outside"
    assert waiting("asyncio/base_events.py(1845): _run_once", timer) == "sleep and lock"
    received = frame("asyncio/selector_events.py(900): _read_ready", 2_000, 3_000)
    assert waiting("asyncio/base_events.py(1845): _run_once", timer, received) == "input/output"


def test_the_release_of_a_lock_ends_the_wait_in_a_with_however_late_the_thread_wakes() -> None:
    leave = "<built-in method __exit__ of _thread.RLock object at 0x7f>"
    found = judged(
        frame("train.py(3): step", 0, 10 * MS),
        op("aten::mm", 0, MS),
        op("aten::mm", 9 * MS, 9 * MS + 500_000),
        frame(leave, 9 * MS + 600_000, 9 * MS + 601_000),
        frame("worker.py(5): loop", 0, 10 * MS, "worker"),
        frame("worker.py(9): hold", 0, 8 * MS, "worker"),
        frame("<built-in function sleep>", 500_000, 8 * MS, "worker"),
        frame(leave, 8 * MS + 1_000, 8 * MS + 2_000, "worker"),
    )
    assert found.limit == "sleep and lock"


def test_a_range_that_holds_what_no_operator_does_is_the_largest_gain() -> None:
    made = []
    for at in range(0, 50 * MS, 10 * MS):
        made += [
            note(f"ProfilerStep#{at}", at, at + 10 * MS),
            note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, at + 9 * MS),
            note("augment", at + 100 * US, at + 8_900 * US),
            op("aten::select", at + 200 * US, at + 250 * US),
            op("aten::mm", at + 9 * MS, at + 10 * MS),
        ]
    found = judged(*made)
    assert found.largest == "augment"
    assert found.largest_gain_ratio == pytest.approx(0.88, abs=0.01)


def test_a_range_around_operators_does_not_stand_for_them() -> None:
    made = [note("forward", at, at + 10 * MS) for at in range(0, 50 * MS, 10 * MS)]
    made += [op("aten::mm", at, at + 9 * MS) for at in range(0, 50 * MS, 10 * MS)]
    assert judged(*made).largest == "aten::mm"


def test_sleeps_have_a_row_for_each_function_even_inside_of_ranges() -> None:
    made = []
    for lane in ("one", "two"):
        made += [
            frame(f"serve.py(3): {lane}", 0, 10 * MS, lane),
            note("wait a little", MS, 9 * MS, lane=lane),
            frame("<built-in function sleep>", 2 * MS, 8 * MS, lane),
        ]
    rows = {row.name for row in analyze(trace(*made)).tables["python"]}
    assert {"sleep, called by serve.py(3): one", "sleep, called by serve.py(3): two"} <= rows


@pytest.mark.parametrize(
    ("called", "said"),
    [
        ("<built-in function sleep>", "Sleep less"),
        ("<built-in function waitpid>", "child processes"),
        ("<built-in function openssl_sha256>", "a library's own code"),
        ("<built-in method sort of list object at 0x7f>", "Call sort less"),
    ],
)
def test_advice_is_about_what_takes_the_time(called: str, said: str) -> None:
    around = frame("train.py(3): step", 0, 10 * MS)
    assert said in judged(around, frame(called, MS, 10 * MS)).advice


def test_opening_ranges_is_the_profilers_own() -> None:
    opened = "<built-in method _record_function_enter_new of PyCapsule object at 0x7f>"
    made = [frame("train.py(3): step", 0, 10 * MS), frame(opened, MS, 2 * MS)]
    made += [frame("torch/autograd/profiler.py(932): __exit__", 3 * MS, 4 * MS)]
    rows = {row.name: row for row in analyze(trace(*made)).tables["python"]}
    assert rows["record_function, the profiler's own"].total_ns == 2 * MS
