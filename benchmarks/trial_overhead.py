"""A trial's own overhead: everything that is neither building nor timed calls, against its floor.

The floor does in one bare process what each measuring process cannot avoid: start an
interpreter, import the runtime, load the artifact and call it once.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from _harness import ROOT, python, run_process

EAGER_FLOOR = """
from benchorch.models.mlp import Mlp
import torch
model = Mlp(widths=[256, 1024, 1024, 1024, 32], inputs={}).load(0)
with torch.inference_mode():
    model(torch.zeros(1, 256))
"""
ONNX_FLOOR = """
import sys
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
inputs = {i.name: numpy.zeros([1, 256], "float32") for i in session.get_inputs()}
session.run(None, inputs)
"""


def ratios(rounds: int) -> Iterator[tuple[str, str, float]]:
    """Each artifact, the median ratio to its floor (min to max), and seconds beyond the calls."""
    with tempfile.TemporaryDirectory() as scratch:
        store = f"store.root={scratch}/store"
        trial_overheads(scratch, store, 0, ["eager", "onnxruntime"])  # fills the store
        onnx = next(Path(scratch).glob("store/artifacts/*/files/*.onnx"))
        floors = {
            "eager": python("-c", EAGER_FLOOR),
            "onnxruntime": python("-c", ONNX_FLOOR, str(onnx)),
        }
        found: dict[str, list[float]] = {name: [] for name in floors}
        seconds: dict[str, list[float]] = {name: [] for name in floors}
        for number in range(1, rounds + 1):
            for name, overhead_s in trial_overheads(scratch, store, number, list(floors)).items():
                floor_s, _ = run_process(floors[name])
                found[name].append(overhead_s / floor_s)
                seconds[name].append(overhead_s)
    for name, values in found.items():
        spread = f"{min(values):.2f} to {max(values):.2f}"
        yield name, f"{statistics.median(values):.2f} ({spread})", statistics.median(seconds[name])


def main(rounds: int) -> None:
    print("| artifact | overhead of a process | ratio to its floor (min to max) | goal |")
    print("|---|---|---|---|")
    for name, ratio, beyond_s in ratios(rounds):
        print(f"| {name} | {beyond_s:.2f} s | {ratio} | 1.3 |")


def trial_overheads(scratch: str, store: str, number: int, names: list[str]) -> dict[str, float]:
    """Median over processes of elapsed time less the timed blocks, for each conversion."""
    directory = f"{scratch}/run{number}"
    words = ["model=mlp", f"conversion=[{','.join(names)}]", "stopping=quick", "recorder=none"]
    words += ["profiler=none", "protocol.pairing=none", "protocol.repeats=0"]
    command = python("-m", "benchorch", *words, store, f"hydra.run.dir={directory}")
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    found = {}
    for line in Path(directory, "results.jsonl").read_text().splitlines():
        result = json.loads(line)
        series = Path(directory, "trials", result["trial_id"], "observations.jsonl")
        timed = [json.loads(text)["observations"] for text in series.read_text().splitlines()]
        overheads = [
            process["elapsed_s"]
            - (block["started_ns"][-1] + block["durations_ns"][-1] - block["started_ns"][0]) / 1e9
            for process, block in zip(result["processes"], timed, strict=True)
        ]
        found[result["labels"]["conversion"]] = statistics.median(overheads)
    return found


if __name__ == "__main__":
    started = time.perf_counter()
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    print(f"\n{time.perf_counter() - started:.0f} s", file=sys.stderr)
