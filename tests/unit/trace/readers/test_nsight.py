"""Synthetic files of the documented schema: no real export was at hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchorch.errors import TraceError
from benchorch.trace.analysis import Analysis, analyze
from benchorch.trace.events import Category
from benchorch.trace.graph.scope import Thresholds, scope_of
from benchorch.trace.lookup import launches
from benchorch.trace.readers.open import read_events
from benchorch.trace.steps import find_steps
from benchorch.trace.whatif.predict import predict
from benchorch.trace.whatif.reading import parse
from support.nsight_tables import THREAD, tables
from support.trace_files import write_tables

CUPTI = "CUPTI_ACTIVITY_KIND_"


def test_tables_of_the_documented_schema_are_events(tmp_path: Path) -> None:
    events = read_events(write_tables(tmp_path / "t.sqlite", tables()))
    found = {
        events.names[n]: Category(c) for n, c in zip(events.name, events.category, strict=True)
    }
    assert found == {
        "cudaLaunchKernel": Category.RUNTIME,
        "cudaEventRecord": Category.RUNTIME,
        "cudaStreamWaitEvent": Category.RUNTIME,
        "void gemm(int)": Category.KERNEL,
        "Memcpy HtoD (Pageable -> Device)": Category.COPY,
        "Memset": Category.FILL,
        "Stream Wait Event": Category.SYNC,
        "Context Sync": Category.SYNC,
        "step": Category.ANNOTATION,
        "wait:pthread_cond_wait": Category.ANNOTATION,
        "write": Category.OTHER,
    }
    assert events.repairs == {"negative duration": 1, "without a start or an end": 1}


def test_events_are_joined_and_on_their_lanes(tmp_path: Path) -> None:
    events = read_events(write_tables(tmp_path / "t.sqlite", tables()))
    at = {events.names[n]: index for index, n in enumerate(events.name)}
    launch, kernel = at["cudaLaunchKernel"], at["void gemm(int)"]
    assert events.correlation[launch] == events.correlation[kernel] == 9
    assert (events.start_ns[kernel], events.duration_ns[kernel]) == (200, 700)
    assert events.graph_node[kernel] == 4
    thread, stream = events.lanes[events.lane[launch]], events.lanes[events.lane[kernel]]
    assert (thread.process, thread.thread, thread.label) == ("77", "78", "worker")
    assert (stream.device, stream.stream) == (0, 7)
    assert events.awaited[at["Stream Wait Event"]] == 11  # the last record before the wait
    assert events.stream[at["cudaEventRecord"]] == 21  # the stream that the record is on
    assert not events.lanes[events.lane[at["Context Sync"]]].on_device
    assert find_steps(events, "step").done_ns[0] == 900


def test_details_are_the_columns_of_the_row(tmp_path: Path) -> None:
    events = read_events(write_tables(tmp_path / "t.sqlite", tables()))
    index = int(np.flatnonzero(events.category == Category.COPY)[0])
    assert events.details([index])[index]["copyKind"] == 1


def test_missing_tables_and_columns_count_as_empty(tmp_path: Path) -> None:
    kernels = {"CUPTI_ACTIVITY_KIND_KERNEL": [{"start": 1, "end": 5}]}
    events = read_events(write_tables(tmp_path / "t.sqlite", kernels))
    assert events.duration_ns.tolist() == [4]
    assert events.lanes[0].on_device


def test_values_of_wrong_types_do_no_harm(tmp_path: Path) -> None:
    wrong = {"start": "x", "end": b"\xff", "globalTid": 1e300, "correlationId": "7", "nameId": "q"}
    right = {"start": "1", "end": 5.0, "globalTid": "z", "correlationId": -(2**63), "nameId": None}
    rows = {"CUPTI_ACTIVITY_KIND_RUNTIME": [wrong, right]}
    events = read_events(write_tables(tmp_path / "t.sqlite", rows))
    assert (events.start_ns.tolist(), events.duration_ns.tolist()) == ([1], [4])


def test_other_databases_are_no_traces(tmp_path: Path) -> None:
    path = write_tables(tmp_path / "t.sqlite", {"people": [{"name": "somebody"}]})
    with pytest.raises(TraceError, match=r"tables: people.*nsys export"):
        read_events(path)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(TraceError):
        read_events(path)


def of_process(number: int, kernel_ns: int, began_ns: int) -> dict[str, list[dict[str, Any]]]:
    """Ten steps of one process, each with a kernel that it waits for."""
    process = (1 << 48) | (number << 24)
    found: dict[str, list[dict[str, Any]]] = {"NVTX": [], "RUNTIME": [], "KERNEL": []}
    for step in range(10):
        at = began_ns + step * 10_000_000
        end = at + 70_000 + kernel_ns
        thread = {"globalTid": process | number}
        found["NVTX"].append({"start": at, "end": at + 9_950_000, "text": f"step {step}", **thread})
        for name, start, stop in ((1, at + 50_000, at + 60_000), (2, at + 65_000, end + 10_000)):
            times = {"start": start, "end": stop, "correlationId": 2 * step + name}
            found["RUNTIME"].append({**times, "nameId": name, **thread})
        on = {"deviceId": 0, "streamId": 7, "globalPid": process}
        launched = {"correlationId": 2 * step + 1, "demangledName": 2 + number % 2}
        found["KERNEL"].append({"start": at + 70_000, "end": end, **launched, **on})
    return found


def thread(number: int, process: int = 1000) -> dict[str, object]:
    """On this thread."""
    return {"globalTid": (1 << 48) | (process << 24) | number}


def launching(count: int, every_ns: int, kernel_ns: int) -> dict[str, list[dict[str, Any]]]:
    """So many launches of one kernel by one thread, without ranges."""
    found: dict[str, list[dict[str, Any]]] = {"NVTX": [], "RUNTIME": [], "KERNEL": []}
    for number in range(count):
        at = number * every_ns
        joined = {"correlationId": number}
        found["RUNTIME"].append(
            {"start": at, "end": at + 4000, "nameId": 1, **joined, **thread(1000)}
        )
        on = {"deviceId": 0, "streamId": 7, "globalPid": (1 << 48) | (1000 << 24)}
        begin = max(at + 8000, found["KERNEL"][-1]["end"] if number else 0)
        times = {"start": begin, "end": begin + kernel_ns}
        found["KERNEL"].append({**times, "demangledName": 3, **joined, **on})
    return found


def of_processes(
    place: Path, *made: dict[str, list[dict[str, Any]]], strings: Mapping[int, str] | None = None
) -> Analysis:
    """An export of some processes: each counts its own correlations, devices and streams."""
    names = {1: "cudaLaunchKernel", 2: "cudaDeviceSynchronize", 3: "gemm", 4: "clock_nanosleep"}
    names.update(strings or {})
    tables = {
        "StringIds": [{"id": key, "value": text} for key, text in names.items()],
        "NVTX_EVENTS": [row for one in made for row in one["NVTX"]],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [row for one in made for row in one["RUNTIME"]],
        "CUPTI_ACTIVITY_KIND_KERNEL": [row for one in made for row in one["KERNEL"]],
        "OSRT_API": [row for one in made for row in one.get("OSRT", [])],
    }
    tables = {name: rows for name, rows in tables.items() if rows}
    return analyze(write_tables(place / "t.sqlite", tables))


def test_processes_of_one_export_are_analysed_apart(tmp_path: Path) -> None:
    one, other = of_process(1000, 2_000_000, 10_000_000), of_process(1001, 8_000_000, 6_000_000)
    alone = of_processes(tmp_path, one)
    (tmp_path / "t.sqlite").unlink()
    both = of_processes(tmp_path, one, other)
    assert both.verdict.shares == pytest.approx(alone.verdict.shares)
    assert both.steps.periods_ns.tolist() == alone.steps.periods_ns.tolist()
    events = both.events
    launch = launches(events)
    kernels = np.flatnonzero(events.category == Category.KERNEL)
    programs = events.programs[events.lane]
    assert (programs[launch[kernels]] == programs[kernels]).all()
    assert {(one.device, one.process) for one in both.devices} == {(0, "1000"), (0, "1001")}
    labels = {lane.label for lane in events.lanes if lane.on_device}
    assert labels == {f"device 0 stream 7 of process {number}" for number in (1000, 1001)}


def test_a_process_waits_for_its_own_event_records(tmp_path: Path) -> None:
    made = tables()
    other = (0xAB << 48) | (99 << 24)
    records = [{**row, "globalPid": THREAD & ~0xFFFFFF} for row in made[f"{CUPTI}CUDA_EVENT"]]
    made[f"{CUPTI}CUDA_EVENT"] = [{**row, "globalPid": other} for row in records[:2]] + records[:1]
    made[f"{CUPTI}SYNCHRONIZATION"] = [
        {**row, "globalPid": THREAD & ~0xFFFFFF} for row in made[f"{CUPTI}SYNCHRONIZATION"]
    ]
    events = read_events(write_tables(tmp_path / "t.sqlite", made))
    at = {events.names[n]: index for index, n in enumerate(events.name)}
    wait, call = at["Stream Wait Event"], at["cudaStreamWaitEvent"]
    assert events.correlation[wait] == events.correlation[call]
    assert events.correlation[wait] - events.awaited[wait] == 12 - 10


@pytest.mark.parametrize("text", ["step", "iteration"])
def test_a_sleeping_thread_marks_no_steps(text: str, tmp_path: Path) -> None:
    made = of_process(1000, 2_000_000, 0)
    made["NVTX"] = [{**row, "text": f"{text} {number}"} for number, row in enumerate(made["NVTX"])]
    thread = {"globalTid": (1 << 48) | (1000 << 24) | 1005, "nameId": 4}
    made["OSRT"] = [
        {"start": at, "end": at + 12_900_000, **thread} for at in range(0, 100_000_000, 13_000_000)
    ]
    assert of_processes(tmp_path, made).steps.name == f"{text} *"


def test_iterations_are_steps_though_what_is_around_them_recurs(tmp_path: Path) -> None:
    made = of_process(1000, 2_000_000, 0)
    passes = [{**row, "text": f"pass {number}"} for number, row in enumerate(made["NVTX"])]
    made["NVTX"] = [
        {**row, "text": f"iteration {number}", "end": int(str(row["end"])) - 10}
        for number, row in enumerate(made["NVTX"])
    ] + passes
    assert of_processes(tmp_path, made).steps.name == "iteration *"


def test_sleeping_and_writing_are_causes_of_their_own(tmp_path: Path) -> None:
    thread = {"globalTid": (1 << 48) | (1000 << 24) | 1000}
    calls = [
        {"start": at * 10**6, "end": (at + 1) * 10**6, "nameId": at, **thread} for at in range(3)
    ]
    texts = ("usleep", "write", "ioctl")
    strings = [{"id": key, "value": text} for key, text in enumerate(texts)]
    path = write_tables(tmp_path / "t.sqlite", {"StringIds": strings, "OSRT_API": calls})
    causes = ("sleep and lock", "input/output", "unknown")
    assert analyze(path).verdict.shares == pytest.approx(dict.fromkeys(causes, 1 / 3))


def test_users_of_nsight_are_not_told_to_set_options_of_pytorch(tmp_path: Path) -> None:
    found = of_processes(tmp_path, of_process(1000, 2_000_000, 0))
    assert found.verdict.shares["unknown"] > 0.5
    assert found.verdict.record == ()
    made = of_process(1001, 2_000_000, 0)
    made["NVTX"] = []
    (tmp_path / "t.sqlite").unlink()
    notes = of_processes(tmp_path, made).steps.notes
    assert notes == ("The trace marks no steps, so all of it is analysed as one.",)


@pytest.mark.parametrize("ranges", ["step", "aten::mm, op_id = 5", ""])
def test_what_runs_between_launches_is_not_called_python(ranges: str, tmp_path: Path) -> None:
    made = launching(50, every_ns=90_000, kernel_ns=20_000)
    made["NVTX"] = [
        {"start": row["start"] - 10, "end": row["start"] + 80_000, "text": ranges, **thread(1000)}
        for row in made["RUNTIME"]
        if ranges
    ]
    found = of_processes(tmp_path, made)
    assert found.verdict.limit == "host framework"
    assert found.verdict.shares.get("python", 0.0) == 0
    assert found.verdict.cause["inferred"] > 0.5


@pytest.mark.parametrize("name", ["poll", "ioctl"])
def test_a_system_call_inside_of_a_synchronisation_waits_for_the_device(
    name: str, tmp_path: Path
) -> None:
    made = of_process(1001, 8_000_000, 0)
    syncs = [row for row in made["RUNTIME"] if row["nameId"] == 2]
    made["OSRT"] = [
        {**row, "start": row["start"] + 2000, "end": row["end"] - 2000, "nameId": 5}
        for row in syncs
    ]
    found = of_processes(tmp_path, made, strings={5: name})
    predicted = predict(found, parse({"changes": [{"kernel": "gemm", "speedup": 2}]}).changes)
    assert predicted.makespan_ns - predicted.predicted_ns == pytest.approx(4_000_000, rel=0.02)


def test_a_lock_that_a_launch_waits_for_stays(tmp_path: Path) -> None:
    made = of_process(1000, 2_000_000, 0)
    launches = [row for row in made["RUNTIME"] if row["nameId"] == 1]
    made["OSRT"] = [
        {**row, "start": row["start"] + 10, "end": row["end"] - 10, "nameId": name}
        for row in launches
        for name in (5, 6)
    ]
    found = of_processes(tmp_path, made, strings={5: "pthread_mutex_lock", 6: "mmap"})
    assert "wait:pthread_mutex_lock" in found.events.names
    assert "mmap" not in found.events.names


@pytest.mark.parametrize("name", ["ncclAllReduce", "cub::DeviceReduce::Sum"])
def test_ranges_of_libraries_mark_no_steps(name: str, tmp_path: Path) -> None:
    made = launching(50, every_ns=90_000, kernel_ns=20_000)
    made["NVTX"] = [
        {"start": row["start"] - 1, "end": row["end"] + 1, "text": name, **thread(1000)}
        for row in made["RUNTIME"][::5]
    ]
    found = of_processes(tmp_path, made)
    assert found.steps.name == "trace"
    assert "ranges" not in found.tables


def test_the_thread_that_launches_is_the_main_one_however_often_another_polls(
    tmp_path: Path,
) -> None:
    made = launching(50, every_ns=90_000, kernel_ns=20_000)
    made["OSRT"] = [
        {"start": at, "end": at + 45_000, "nameId": 5, **thread(1005)}
        for at in range(0, 4_300_000, 50_000)
    ]
    events = of_processes(tmp_path, made, strings={5: "poll"}).events
    scope = scope_of(events, None, Thresholds())
    assert events.lanes[scope.main_lane].thread == "1000"
