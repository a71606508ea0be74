"""Candidates for the reference workload: agreement between fresh processes, prediction of a model.

First, how far fresh processes of one machine agree on each kind of work, as shares within 2 % of
the fastest. Then, in one process, an MLP's median over 0.3 s between two canaries: how far its
medians spread over all rounds, and over those whose canaries were within a tolerance. Last, what
each kind of work sees of a program on another processor, beside products that wait for memory.

    python benchmarks/reference_workload.py [PROCESSES] [ROUNDS]     20 and 60 unless told otherwise
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import time

from _harness import python

KINDS = """
import json, sys
from time import perf_counter_ns
import numpy
from benchorch.host.reference_workload import _PRODUCTS, memory_ns, products, square
from benchorch.host.pinning import pin
pin(1)
def loop():
    value = 12345
    for _ in range(7000):
        value = (value * 1103515245 + 12345) & 0x7FFFFFFF
def lower_quartile(work):
    seen = []
    for _ in range(150):
        started = perf_counter_ns()
        work()
        seen.append(perf_counter_ns() - started)
    return sorted(seen[30:])[30]
matrices = products()(_PRODUCTS)
kinds = {"a loop of the interpreter": loop, "whole numbers": square, "matrices": matrices}
times = {name: lower_quartile(work) for name, work in kinds.items()}
times["copies of 16 MiB"] = memory_ns()
for mib in map(int, sys.argv[1:]):
    matrix = numpy.ones((mib * 64, 4096), numpy.float32)
    row, product = numpy.ones(4096, numpy.float32), numpy.empty(mib * 64, numpy.float32)
    name = f"model: row by a matrix of {mib} MiB"
    times[name] = lower_quartile(lambda: numpy.dot(matrix, row, product))
print(json.dumps(times))
"""
BESIDE = {
    "nothing": "",
    "arithmetic": "while True: sum(range(10_000))",
    "copies of 128 MiB": (
        "import numpy\none = numpy.ones(1 << 24)\nother = numpy.empty_like(one)\n"
        "while True: numpy.copyto(other, one)"
    ),
}
TOLERANCES = (0.02, 0.05, 0.10)
WINDOW_S = 0.3


def main(processes: int, rounds: int) -> None:
    agreement(processes)
    print()
    foretelling(rounds)
    print()
    beside(processes // 2)


def agreement(processes: int) -> None:
    seen = []
    for _ in range(processes):
        done = subprocess.run(python("-c", KINDS), capture_output=True, text=True, check=True)
        seen.append(json.loads(done.stdout))
    print(
        f"| work, {processes} fresh processes | within 2 % of the fastest | median over fastest |"
    )
    print("|---|---|---|")
    for name in seen[0]:
        times = sorted(each[name] for each in seen)
        near = sum(value <= 1.02 * times[0] for value in times)
        print(f"| {name} | {near} of {processes} | {statistics.median(times) / times[0]:.3f} |")


def beside(processes: int) -> None:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in BESIDE}
    last = max(os.sched_getaffinity(0))
    for _ in range(processes):
        for name, code in BESIDE.items():
            pinned = f"import os\nos.sched_setaffinity(0, [{last}])\n{code}"
            with subprocess.Popen(python("-c", pinned)) as other:
                time.sleep(0.5)
                words = python("-c", KINDS, "4", "64")
                done = subprocess.run(words, capture_output=True, text=True, check=True)
                other.kill()
            found[name].append(json.loads(done.stdout))
    heads = " | ".join(f"beside {name}" for name in BESIDE)
    print(f"| work, median and slowest of {processes} | {heads} |")
    print("|---|---|---|---|")
    for kind in found["nothing"][0]:
        medians = [statistics.median(each[kind] for each in seen) for seen in found.values()]
        slowest = [max(each[kind] for each in seen) for seen in found.values()]
        ratios = [
            f"{m / medians[0]:.2f}, {s / medians[0]:.2f} ×"
            for m, s in zip(medians, slowest, strict=True)
        ]
        cells = [f"{medians[0] / 1e6:.3f} ms; {ratios[0].split(', ')[1]}", *ratios[1:]]
        print(f"| {kind} | {' | '.join(cells)} |")


def foretelling(rounds: int) -> None:
    import torch
    from torch import nn

    from benchorch.host.pinning import pin
    from benchorch.host.reference_workload import reference_ns

    pin(1)
    torch.set_num_threads(1)
    sizes = [512, 512, 512, 10]
    model = nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(sizes)))
    batch = torch.zeros(1, 512)
    medians, looks = [], [reference_ns()]
    with torch.inference_mode():
        for _ in range(rounds):
            medians.append(window_median(lambda: model(batch)))
            looks.append(reference_ns())
    best = min(looks)
    worst = [max(looks[i], looks[i + 1]) / best - 1 for i in range(rounds)]
    print(f"| canaries within | rounds of {rounds} | spread of the MLP's medians (p90 over p10) |")
    print("|---|---|---|")
    print(f"| anything | {rounds} | {spread(medians)} |")
    for tolerance in TOLERANCES:
        kept = [m for m, off in zip(medians, worst, strict=True) if off <= tolerance]
        print(f"| {tolerance:.0%} | {len(kept)} | {spread(kept)} |")


def window_median(call) -> float:
    ends = time.perf_counter() + WINDOW_S
    seen = []
    while not seen or time.perf_counter() < ends:
        started = time.perf_counter_ns()
        call()
        seen.append(time.perf_counter_ns() - started)
    return statistics.median(seen)


def spread(values: list[float]) -> str:
    if len(values) < 10:
        return "too few"
    deciles = statistics.quantiles(values, n=10)
    return f"{deciles[-1] / deciles[0]:.3f}"


if __name__ == "__main__":
    # Before torch and numpy are imported, in this process and in those it starts.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    given = [int(word) for word in sys.argv[1:]]
    main(*(given + [20, 60][len(given) :]))
    print(f"\nload average {os.getloadavg()[0]:.1f}")
