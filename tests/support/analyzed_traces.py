"""Small traces as files, and the analysis of one, for tests of what is made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchorch.trace.analysis import Analysis, analyze
from benchorch.trace.dag import Window
from benchorch.trace.events import Events
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trace.readers.open import read_events
from benchorch.trace.steps import find_steps

HOSTILE = (
    "</script><script>alert(1)</script>",
    '<img src=x onerror="alert(2)">',
    "a'\"&<b>]]>--><svg onload=alert(3)>",
    "`${alert(4)}` \u2028 \x1b[31m",
    "=cmd|' /C calc'!A0",
)
"""Names that a page, a picture, a script or a spreadsheet could take for something else."""


def analysed(path: Path, graph: OperatorGraph | None = None, number: int | None = None) -> Analysis:
    """Of the steady steps of a trace, or of one of them."""
    return analyze(read_events(path), graph=graph, iteration=number)


def call_window(events: Events, number: int = 0) -> Window:
    """One marked step alone, as if there were nothing before it."""
    steps = find_steps(events)
    return Window(
        start_ns=int(steps.start_ns[number]),
        end_ns=int(steps.done_ns[number]),
        host_end_ns=int(steps.end_ns[number]),
        lane=steps.lane,
    )


def host(name: str, start_us: float, took_us: float, kind: str = "cpu_op", **said) -> dict:
    """An event of the one host thread."""
    place = {"pid": 1, "tid": 1, "ts": start_us, "dur": took_us}
    return {"ph": "X", "cat": kind, "name": name, "args": said} | place


def launched(name: str, at_us: float, start_us: float, took_us: float, number: int) -> list[dict]:
    """A call that launches a kernel, and the kernel."""
    said = {"correlation": number, "stream": 7, "device": 0}
    kernel = {"pid": 0, "tid": 7, "ts": start_us, "dur": took_us}
    return [
        host("cudaLaunchKernel", at_us, 4, "cuda_runtime", correlation=number),
        {"ph": "X", "cat": "kernel", "name": name, "args": said} | kernel,
    ]


def two_layers(names: Sequence[str] = ("aten::mm", "aten::relu", "gemm", "relu")) -> list[dict]:
    """A call of two modules, each with an operator that launches a kernel, then a wait for all."""
    mm, relu, gemm, clamp = names[:4]
    return [
        host("benchorch:call", 0, 1000, "user_annotation"),
        host("mod:encoder.0", 10, 100, "user_annotation"),
        host(mm, 20, 60),
        *launched(gemm, 30, 60, 300, 11),
        host("mod:encoder.1", 120, 100, "user_annotation"),
        host(relu, 130, 50),
        *launched(clamp, 140, 370, 200, 12),
        host("cudaDeviceSynchronize", 240, 340, "cuda_runtime", correlation=13),
        host("aten::cat", 600, 300),
    ]


def trace_file(path: Path, events: Sequence[Mapping[str, object]]) -> Path:
    """The events as a profiler would leave them."""
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events)}))
    return path
