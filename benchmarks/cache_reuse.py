"""What is built once and found again: a sweep rerun, and a compiled package's way to ready.

The sweep runs twice as commands, the second time with nothing changed; its build stages are added
up, the starts of processes included. The package is then loaded in fresh processes, timed from the
moment at which torch is imported.

Run: python benchmarks/cache_reuse.py [PROCESSES]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _harness import ROOT, python

from benchorch.domain.result import TrialResult
from benchorch.journal import reader, run_directory

CONVERSIONS = (
    "export",
    "torchscript",
    "onnxruntime",
    "onnxruntime_int8_dynamic",
    "onnxruntime_int8_static",
    "dynamic_int8",
    "fx_int8",
    "inductor",
    "aot_inductor",
    "aot_inductor_freezing",
)
WORDS = (
    "model=mlp",
    f"conversion=[{','.join(CONVERSIONS)}]",
    "hardware.threads=1",
    "stopping=fixed",
    "stopping.processes=1",
    "stopping.calls=5",
    "stopping.window_s=0.05",
    "protocol.pairing=none",
    "protocol.split_passes=0",
    "protocol.canary_tolerance_ratio=null",
    "profiler=none",
    "recorder=none",
)
READY = """
import json, sys
from pathlib import Path
import torch
from time import perf_counter
torch_s = perf_counter()
from benchorch.config.trial_setup import open_chain
from benchorch.domain.artifact import Format
from benchorch.interfaces.runtime import LoadRequest
chain = open_chain(json.loads(sys.argv[1]))
example = chain.example(chain.workload.seed)
began_s = perf_counter()
package = Path(sys.argv[2])
loaded = chain.runtime.load(
    LoadRequest(module=None, source=package, sources={Format.AOTI_PACKAGE: package},
                example=example, device="cpu", threads=1, scratch_dir=package)
)
loaded_s = perf_counter()
call = loaded.bind(example.arrays)
with loaded.calling():
    call()
called_s = perf_counter()
assert "torch._inductor.compile_fx" not in sys.modules
print(json.dumps([loaded_s - began_s, called_s - began_s, called_s - torch_s]))
"""
# As in a shell of anybody's: modules are not compiled anew in each process.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def sweep(place: Path, number: int) -> tuple[Path, dict[str, TrialResult]]:
    """One invocation's directory, and its results by conversion."""
    directory = place / f"run{number}"
    words = [*WORDS, f"store.root={place / 'store'}", f"hydra.run.dir={directory}"]
    command = python("-m", "benchorch", *words)
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True, env=ENVIRONMENT)
    results = reader.read_results(directory)
    return directory, {result.labels["conversion"]: result for result in results}


def ready(spec: str, package: Path) -> list[float]:
    """Seconds in a fresh process: loading; with the first call; since torch was imported."""
    done = subprocess.run(
        python("-c", READY, spec, str(package)),
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    found: list[float] = json.loads(done.stdout)
    return found


def package_of(directory: Path, place: Path, conversion: str, key: str) -> tuple[str, Path]:
    """A trial's spec, and where the store has what it built."""
    trials = run_directory.read_plan(directory).trials
    trial = next(each for each in trials if each.labels["conversion"] == conversion)
    return json.dumps(trial.spec), place / "store" / "artifacts" / key / "files"


def main(processes: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        _, cold = sweep(place, 1)
        directory, warm = sweep(place, 2)
        print("| build stage of | cold s | again s | times as fast |\n|---|---|---|---|")
        totals = []
        for name in cold:
            seconds = [results[name].stages_s["build"] for results in (cold, warm)]
            totals.append(seconds)
            print(
                f"| {name} | {seconds[0]:.2f} | {seconds[1]:.3f} | {seconds[0] / seconds[1]:.0f} |"
            )
        first, again = (sum(column) for column in zip(*totals, strict=True))
        print(f"| all | {first:.2f} | {again:.3f} | {first / again:.0f} (goal: 50) |")
        states = {build.cache for r in warm.values() if (build := r.build)}
        assert states == {"hit", "none"}, states
        build = warm["aot_inductor"].build
        assert build is not None
        spec, package = package_of(directory, place, "aot_inductor", build.key)
        seen = [ready(spec, package) for _ in range(processes)]
    loaded, called, since = (column for column in zip(*seen, strict=True))
    print(f"\nAn AOTInductor package in {processes} fresh processes, median (and longest), in s:")
    for what, column in (
        ("loaded and ready to call, goal 0.25", loaded),
        ("... with its inputs and the first call", called),
        ("... with benchorch's own imports, since `import torch`, goal 0.25", since),
    ):
        print(f"- {what}: {statistics.median(column):.3f} ({max(column):.3f})")
    print(f"\nload average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
