"""Adapter of the analysis to the corpus of programs with planted bottlenecks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchorch.errors import TraceError
from benchorch.trace.analysis import analyze
from benchorch.trace.whatif.basis import prepare
from benchorch.trace.whatif.predict import predict
from benchorch.trace.whatif.reading import parse

CLASS_OF = {
    "device compute": "device_compute",
    "device memory": "device_memory",
    "communication": "communication",
    "waiting for a straggler": "straggler",
    "data loading": "data_loading",
    "host framework": "host_framework",
    "python": "python",
    "input/output": "io",
    "sleep and lock": "sleep_or_lock",
    "outside": "outside",
    "profiler": "profiler",
}
HOST = [
    *("cpu_compute", "cpu_comm", "cpu_framework", "cpu_runtime", "cpu_python", "cpu_gap"),
    *("data_loading", "input_output", "sleep", "lock", "outside"),
]


def analyse(
    traces: Sequence[str], whatifs: Sequence[Mapping[str, object]], info: Mapping[str, object]
) -> dict[str, object]:
    """The verdict's class, the period, and the predictions of one program."""
    marks = info.get("marks")
    name = None if marks in (None, "step") else str(marks)
    analysis = analyze([Path(one) for one in traces], range_name=name)
    basis = prepare(analysis)
    predictions = {}
    for one in whatifs:
        try:
            changes = [change(item) for item in one["change"]]
            said = predict(basis, parse({"changes": changes}).changes, name=str(one["name"]))
        except TraceError as error:
            print(f"  {info.get('name')} {one['name']}: {error}")
            continue
        predictions[one["name"]] = (said.low_ns, said.predicted_ns, said.high_ns)
    return {
        "class": CLASS_OF.get(analysis.verdict.limit),
        "period_ns": analysis.steps.period_ns,
        "predictions": predictions,
    }


def change(item: Mapping[str, object]) -> dict[str, object]:
    """One of the corpus's changes in the words of a what-if file."""
    target, match = str(item["target"]), f"/{item['match']}/"
    rank = {"rank": item["rank"]} if "rank" in item else {}
    if item["kind"] == "remove" and target == "sync":
        return {"name": match, "remove": True, **rank}
    factor = 0.0 if item["kind"] == "remove" else float(item["factor"])
    effect = {"speedup": 1.0 / factor if factor else float("inf"), **rank}
    if target == "data_loader":
        return {"class": "data_loading", **effect}
    if target == "overhead":
        return {"name": match, "class": "profiler", **effect}
    if target == "runtime":
        return {"name": match, "class": "cpu_runtime", **effect}
    if target in ("host_op", "range", "python"):
        return {"name": match, "class": HOST, **effect}
    of_class = {"kernel": "gpu_compute", "memcpy": "gpu_copy", "collective": "gpu_comm"}[target]
    return {"kernel": match, "class": of_class, **effect}
