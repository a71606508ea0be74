"""Small profiles as files: records as their exporters write them."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchorch.trace.events import Events

COLUMNS = (
    "start_ns",
    "duration_ns",
    "name",
    "lane",
    "category",
    "correlation",
    "external_id",
    "sequence",
    "forward_lane",
    "stream",
    "awaited",
    "graph_node",
    "group",
)


def event(cat: str, name: str, ts: object, dur: object, **more: Any) -> dict[str, Any]:
    """One complete record; ``pid``, ``tid`` and ``args`` may be given."""
    record = {"ph": "X", "cat": cat, "name": name, "pid": 10, "tid": 10, "ts": ts, "dur": dur}
    return {**record, "args": {}, **more}


def a_step(number: int) -> list[dict[str, Any]]:
    """Forward, backward and a kernel of one iteration, all kinds of records among them."""
    at, correlation = 1000.0 * number + 0.125, 10 * number
    on_stream = {"device": 0, "stream": 7}
    return [
        event("user_annotation", f"ProfilerStep#{number}", at, 900),
        event(
            "cpu_op",
            "aten::mm",
            at + 10,
            100.5,
            args={"External id": number, "Sequence number": number, "Fwd thread id": 0},
        ),
        event("cpu_op", "aten::empty", at + 12, 0, args={"Input Dims": [[2, 3], []]}),
        event(
            "cuda_runtime",
            "cudaLaunchKernel",
            at + 20,
            10,
            args={"correlation": correlation + 1, "External id": number, "stream": "0x0"},
        ),
        {"ph": "s", "id": number, "pid": 10, "tid": 10, "ts": at + 20, "cat": "ac2g", "name": "x"},
        event(
            "kernel",
            f"gemm<{number}>(char*, int)",
            at + 60,
            900,
            pid=0,
            tid=7,
            args={"correlation": correlation + 1, "graph node id": 5, **on_stream},
        ),
        event("gpu_user_annotation", f"ProfilerStep#{number}", at + 60, 900, pid=0, tid=7),
        event(
            "cuda_sync",
            "Stream Sync",
            at + 300,
            500,
            pid=0,
            tid=1_000_007,
            args={"correlation": correlation + 2, **on_stream},
        ),
        event(
            "cuda_sync",
            "Stream Wait Event",
            at + 300,
            0,
            pid=0,
            tid=20,
            args={
                "correlation": correlation + 3,
                "device": 0,
                "stream": 20,
                "wait_on_cuda_event_record_corr_id": correlation + 4,
            },
        ),
        event(
            "cpu_op",
            "MmBackward0",
            at + 400,
            20,
            tid=11,
            args={"Sequence number": number, "Fwd thread id": 1},
        ),
        event("overhead", "Buffer Flush", at, 3, pid=-1, tid=0),
        {"ph": "C", "name": "memory", "pid": 10, "tid": 10, "ts": at, "args": {"bytes": 1}},
    ]


def steps(count: int = 3) -> list[dict[str, Any]]:
    """The records of some iterations."""
    named = {"ph": "M", "name": "thread_name", "pid": 10, "tid": 10, "args": {"name": "main"}}
    return [named, *(record for number in range(count) for record in a_step(number))]


def write(
    path: Path, records: Sequence[object], *, indent: int | None = None, **facts: object
) -> Path:
    """A profile of PyTorch; gzip if the suffix says so."""
    value = {"schemaVersion": 1, **facts, "traceEvents": list(records), "traceName": "a trace"}
    text = json.dumps(value, indent=indent).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def same(one: Events, other: Events) -> bool:
    """Whether two readings gave the same columns, names, lanes and repairs."""
    columns = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in COLUMNS)
    words = (one.names, one.lanes, dict(one.repairs)) == (
        other.names,
        other.lanes,
        dict(other.repairs),
    )
    return columns and words


def write_tables(path: Path, tables: Mapping[str, Sequence[Mapping[str, object]]]) -> Path:
    """An SQLite file; the columns of a table are those of its first row."""
    connection = sqlite3.connect(path)
    for name, rows in tables.items():
        columns = ", ".join(f'"{column}"' for column in rows[0])
        marks = ", ".join("?" * len(rows[0]))
        connection.execute(f'CREATE TABLE "{name}" ({columns})')
        connection.executemany(
            f'INSERT INTO "{name}" VALUES ({marks})', [tuple(row.values()) for row in rows]
        )
    connection.commit()
    connection.close()
    return path
