"""Small traces as files, and the analysis of one, for tests of what is made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchorch.trace.analysis import Analysis
from benchorch.trace.attribution.findings import findings
from benchorch.trace.critical_path.path import critical_path
from benchorch.trace.graph.build import build_dag
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trace.readers.open import read_events
from benchorch.trace.windows import windows

HOSTILE = (
    "</script><script>alert(1)</script>",
    '<img src=x onerror="alert(2)">',
    "a'\"&<b>]]>--><svg onload=alert(3)>",
    "`${alert(4)}` \u2028 \x1b[31m",
    "=cmd|' /C calc'!A0",
)
"""Names that a page, a picture, a script or a spreadsheet could take for something else."""


def analysed(path: Path, graph: OperatorGraph | None = None, index: int = -1) -> Analysis:
    """Of one window of a trace, the last by default."""
    events = read_events(path)
    dag = build_dag(events, windows(events)[index], graph)
    critical = critical_path(dag)
    found = findings(events, dag, critical, graph=graph)
    return Analysis(events=events, dag=dag, path=critical, findings=found, graph=graph)


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
