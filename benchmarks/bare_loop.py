"""Benchorch and a bare loop around the same call, in turns; and do both rank conversions alike?

First a call of some 10 µs without a framework, as `benchorch doctor` does. Then a small model in
eager mode: on one side what anybody would write, on the other a trial's own way from the bound
call to the median of its blocks, in turns of 100 ms. Last whole runs of benchorch over eager,
compiled and ONNX, each beside a bare loop over the same three in one process.

    python benchmarks/bare_loop.py [ROUNDS] [RANKINGS]     15 and 3; the goal says 10 rankings
"""

from __future__ import annotations

import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter_ns

from _harness import ROOT, python

WIDTHS = (512, 512, 512, 10)
# A slice of benchorch's begins by collecting garbage, which takes the caches along: long enough for
# the calls right after that not to matter, as in a trial's half second.
SLICE_S = 0.1
SLICES = 5
LOOKS = 5
SPREAD_RATIOS = {"A": 0.03, "B": 0.03, "C": 0.04}
"""What the middle 80 % of ratios may span on a node of that grade."""

Call = Callable[[], object]
Inside = Callable[[], AbstractContextManager[object]]
Side = Callable[[], Sequence[float]]
"""A slice of one side: nanoseconds per call."""


def main(rounds: int, rankings: int) -> None:
    from benchorch.host.noise_grade import grade

    found = grade()
    print(f"node: grade {found.letter}; 1 ms of work has p99/p50 {found.p99_over_p50:.2f}\n")
    native()
    small_model(rounds, found.letter)
    order(rankings)


def native() -> None:
    """C3: a call without a framework; the band is 1 %, or twice the bare loop's own difference."""
    from benchorch.cli.commands.doctor.timer_accuracy import agreement

    print("| 10 µs native call | benchorch / bare [95 %] | bare / bare [95 %] | band | agrees |")
    print("|---|---|---|---|---|")
    for seed in range(LOOKS):
        seen = agreement(seed=seed)
        ours, bare = (
            f"{each.value:.4f} [{each.low:.4f}, {each.high:.4f}]"
            for each in (seen.ratio, seen.bare_ratio)
        )
        agrees = "yes" if seen.agrees else "no"
        print(f"| look {seed + 1} | {ours} | {bare} | {seen.band_ratio:.4f} | {agrees} |")
    print()


def small_model(rounds: int, letter: str) -> None:
    """G3c: medians per call of an eager multilayer perceptron on one thread, round by round."""
    import torch

    torch.set_num_threads(1)
    # One module for both: where another one's weights lie in memory is worth a hundredth.
    module = live_module()
    executable, arrays = loaded(module)
    tensor = torch.from_numpy(arrays["input"])
    call = executable.bind(arrays)
    bare: tuple[Call, Inside] = (lambda: module(tensor), torch.inference_mode)
    sides: dict[str, Side] = {
        "benchorch": lambda: benchorch_ns(call, executable.calling),
        "bare": lambda: bare_ns(*bare),
        "again": lambda: bare_ns(*bare),
        # What the loop alone adds, apart from how the model is called.
        "loop": lambda: benchorch_ns(*bare),
    }
    seen = [medians_ns(sides, seed) for seed in range(rounds)]
    typical_us = statistics.median(each["bare"] for each in seen) / 1e3
    print(f"| eager MLP, {typical_us:.0f} µs a call | median ratio [90 %] | p10 to p90 | goal |")
    print("|---|---|---|---|")
    names = {
        "benchorch": "benchorch / bare loop",
        "loop": "its loop alone / bare loop",
        "again": "bare loop / bare loop",
    }
    for side, name in names.items():
        goal = f"1 ± 0.01, p90 - p10 ≤ {SPREAD_RATIOS[letter]}" if side == "benchorch" else ""
        ratios = [each[side] / each["bare"] for each in seen]
        print(ratio_row(name, ratios, goal))
    executable.close()
    print()


def ratio_row(name: str, ratios: Sequence[float], goal: str) -> str:
    from benchorch.stats.quantiles import quantile

    middle = quantile(ratios, 0.5, unit="ratio", level_ratio=0.9)
    p10, *_, p90 = statistics.quantiles(ratios, n=10, method="inclusive")
    interval = "" if middle is None else f" [{middle.low:.4f}, {middle.high:.4f}]"
    spread = f"{p10:.4f} to {p90:.4f} ({p90 - p10:.4f})"
    return f"| {name} | {statistics.median(ratios):.4f}{interval} | {spread} | {goal} |"


def order(rankings: int) -> None:
    """G3d: eager, compiled and ONNX by benchorch, and by a bare loop over all three in turns."""
    print("| ranking | bare loop, µs | benchorch, µs | same order |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        calls = three_calls(Path(scratch))
        agreed = 0
        for number in range(1, rankings + 1):
            ours = benchorch_ranking_ns(Path(scratch), number)
            sides = {name: lambda each=each: bare_ns(*each) for name, each in calls.items()}
            bare = medians_ns(sides, number)
            same = sorted(bare, key=bare.__getitem__) == sorted(ours, key=ours.__getitem__)
            agreed += same
            cells = (" < ".join(ranked(side)) for side in (bare, ours))
            print(f"| {number} | {' | '.join(cells)} | {'yes' if same else 'no'} |", flush=True)
    print(f"\nthe bare loop's order in {agreed} of {rankings} runs")


def ranked(medians_ns: dict[str, float]) -> list[str]:
    return [
        f"{name} {medians_ns[name] / 1e3:.1f}" for name in sorted(medians_ns, key=medians_ns.get)
    ]


def medians_ns(sides: dict[str, Side], seed: int) -> dict[str, float]:
    """Each side's median over slices taken in turns, in random order; the first does not count."""
    generator = random.Random(seed)
    seen: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(SLICES + 1):
        for name in generator.sample(sorted(sides), len(sides)):
            calls_ns = sides[name]()
            if number:
                seen[name] += calls_ns
    return {name: statistics.median(calls_ns) for name, calls_ns in seen.items()}


def bare_ns(call: Call, inside: Inside) -> Sequence[float]:
    """Every call timed on its own, as anybody would write it."""
    taken_ns: list[float] = []
    with inside():
        ends_ns = perf_counter_ns() + SLICE_S * 1e9
        while perf_counter_ns() < ends_ns:
            started_ns = perf_counter_ns()
            call()
            taken_ns.append(perf_counter_ns() - started_ns)
    return taken_ns


def benchorch_ns(call: Call, inside: Inside) -> Sequence[float]:
    """The blocks of one process, per call."""
    from benchorch.hardware.cpu import CpuClock
    from benchorch.scenarios.single_stream import SingleStream
    from benchorch.stopping.fixed import Fixed

    clock = CpuClock()
    with inside():
        seen = SingleStream().run(
            [call],
            clock=clock,
            calibration=clock.calibrate(),
            stopping=Fixed(calls=1, window_s=SLICE_S),
            items_per_call=1,
        )
    return [block_ns / seen.calls_per_block for block_ns in seen.durations_ns]


def live_module():
    from benchorch.models.mlp import Mlp

    return Mlp(widths=WIDTHS, inputs={}).load(0)


def loaded(module):
    """The model as a trial's process holds it, and inputs of its size."""
    import numpy as np

    from benchorch.domain.tensors import Example, TensorSpec
    from benchorch.interfaces.runtime import LoadRequest
    from benchorch.runtimes.eager import Eager

    arrays = {"input": np.ones((1, WIDTHS[0]), np.float32)}
    spec = TensorSpec(name="input", shape=(1, WIDTHS[0]), dtype="float32")
    request = LoadRequest(
        module=lambda: module,
        source=None,
        sources={},
        example=Example(arrays=arrays, keywords={}, specs=(spec,)),
        device="cpu",
        threads=1,
        scratch_dir=ROOT,
    )
    return Eager().load(request), arrays


def three_calls(scratch: Path):
    """Eager, compiled and ONNX in this process, each with what it is called in."""
    import onnxruntime
    import torch

    module, tensor = live_module(), torch.ones(1, WIDTHS[0])
    compiled = torch.compile(module)
    torch.onnx.export(module, (tensor,), scratch / "mlp.onnx", dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(scratch / "mlp.onnx", options)
    inputs = {session.get_inputs()[0].name: tensor.numpy()}
    return {
        "eager": (lambda: module(tensor), torch.inference_mode),
        "inductor": (lambda: compiled(tensor), torch.inference_mode),
        "onnxruntime": (lambda: session.run(None, inputs), nullcontext),
    }


def benchorch_ranking_ns(scratch: Path, number: int) -> dict[str, float]:
    """Each conversion's headline, from one run of the program."""
    from benchorch.journal.reader import read_results
    from benchorch.results.metrics.summary import summarise

    run = scratch / f"run{number}"
    words = [
        *("model=mlp", f"model.widths=[{','.join(map(str, WIDTHS))}]"),
        *(f"model.inputs.input.shape=[batch_size,{WIDTHS[0]}]", "hardware.threads=1"),
        *("conversion=[eager,inductor,onnxruntime]", "stopping=quick", "recorder=none"),
        "protocol.pairing=none",  # the order is by headlines alone
        "profiler=none",
        *(f"store.root={scratch / 'store'}", f"hydra.run.dir={run}"),
    ]
    done = subprocess.run(
        python("-m", "benchorch", *words), check=False, cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    found = {}
    for result in read_results(run):
        headline = summarise(result, None).metrics.get("latency_ms/p50")
        found[result.labels["conversion"]] = math.inf if headline is None else headline.value * 1e6
    return found


if __name__ == "__main__":
    started = time.perf_counter()
    arguments = [int(each) for each in sys.argv[1:]]
    main(*(arguments + [15, 3][len(arguments) :]))
    print(f"\n{time.perf_counter() - started:.0f} s", file=sys.stderr)
