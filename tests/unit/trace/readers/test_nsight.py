"""Synthetic files of the documented schema: no real export was at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchorch.errors import TraceError
from benchorch.trace.events import Category
from benchorch.trace.readers.open import read_events
from benchorch.trace.steps import find_steps
from support.nsight_tables import tables
from support.trace_files import write_tables


def test_tables_of_the_documented_schema_are_events(tmp_path: Path) -> None:
    events = read_events(write_tables(tmp_path / "t.sqlite", tables()))
    found = {
        events.names[n]: Category(c) for n, c in zip(events.name, events.category, strict=True)
    }
    assert found == {
        "cudaLaunchKernel": Category.RUNTIME,
        "cudaStreamWaitEvent": Category.RUNTIME,
        "void gemm(int)": Category.KERNEL,
        "Memcpy HtoD (Pageable -> Device)": Category.COPY,
        "Memset": Category.FILL,
        "Stream Wait Event": Category.SYNC,
        "Context Sync": Category.SYNC,
        "step": Category.ANNOTATION,
        "wait:pthread_cond_wait": Category.ANNOTATION,
        "write": Category.ANNOTATION,
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
