"""Are forked processes as independent repetitions as fresh ones?

    python benchmarks/forked_processes.py [--rounds 24] [--calls-s 0.5] [--forks 6]

A process forked from a template that has imported torch saves the import, several seconds where
transformers is needed. But a repetition randomises what a process draws once: where its libraries,
heap and stack lie. A fork inherits the template's. So each round times the same work in a fresh
process and in a fork, in random order; templates change every --forks rounds.

Forks may replace fresh processes only where both hold: the ratio of their times is 1 within the
interval, and forks of one template differ among themselves as much as fresh processes do. A spread
that is smaller, or one between templates, would be missing from every interval.

With --bare only ONNX Runtime is timed, in processes and templates that never import torch.

Needs a machine with nothing else to do. Prints a row for each workload: the ratio forked over
fresh of geometric means with its 95 % interval (t, paired by round), the standard deviations of
log times, and the share of the forks' variance that lies between templates (one-way ANOVA,
negative estimates shown as 0) with the p value of F.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from scipy import stats as distributions

Times = dict[str, float]  # median seconds of a call by workload


def workloads(call_s: float, *, bare: bool) -> Times:
    """The median call of each workload in this process, one thread."""
    import numpy
    import onnxruntime

    session = onnxruntime.InferenceSession(_graph(), _options(onnxruntime))
    fed = {"x": numpy.random.default_rng(0).random((8, 512), dtype=numpy.float32)}
    calls: dict[str, Callable[[], object]] = {"ONNX Runtime": lambda: session.run(None, fed)}
    if bare:
        return timed(calls, call_s)
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    mlp = torch.nn.Sequential(
        *(layer for _ in range(3) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU()))
    )
    attention = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True).eval()
    image, row, tokens = torch.rand(1, 32, 56, 56), torch.rand(8, 512), torch.rand(1, 64, 256)
    convolution = torch.nn.Conv2d(32, 32, 3, padding=1)
    calls |= {
        "linear layers": lambda: mlp(row),
        "convolution": lambda: convolution(image),
        "attention": lambda: attention(tokens),
    }
    with torch.inference_mode():
        return timed(calls, call_s)


def timed(calls: dict[str, Callable[[], object]], call_s: float) -> Times:
    """The median of each call after twenty, over so many seconds."""
    found = {}
    for name, call in calls.items():
        for _ in range(20):
            call()
        durations, ends = [], time.perf_counter() + call_s
        while (now := time.perf_counter()) < ends:
            call()
            durations.append(time.perf_counter() - now)
        found[name] = statistics.median(durations)
    return found


def _options(onnxruntime: object) -> object:
    options = onnxruntime.SessionOptions()  # type: ignore[attr-defined]
    options.intra_op_num_threads = 1
    return options


def _graph() -> bytes:
    """Three linear layers of 512."""
    import numpy
    from onnx import TensorProto, helper, numpy_helper

    drawn = numpy.random.default_rng(1)
    nodes, weights, before = [], [], "x"
    for number in range(3):
        weight = drawn.random((512, 512), dtype=numpy.float32) / 512
        weights.append(numpy_helper.from_array(weight, f"w{number}"))
        nodes.append(helper.make_node("MatMul", [before, f"w{number}"], [f"y{number}"]))
        before = f"y{number}"
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [8, 512]) for n in ("x", before)]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], weights)
    opset = helper.make_opsetid("", 20)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    return bytes(model.SerializeToString())


def template(*, bare: bool) -> None:
    """Import what workloads need; fork once for each line of input, which is the seconds a call."""
    import numpy  # noqa: F401
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401

    if not bare:
        import torch  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if not child:
            print(json.dumps(workloads(float(line), bare=bare)), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


class Template:
    """A running template."""

    def __init__(self, *more: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--as-template", *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def fork(self, call_s: float) -> Times:
        """Times in a process forked now."""
        assert self._process.stdin
        assert self._process.stdout
        print(call_s, file=self._process.stdin, flush=True)
        return dict(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def fresh(call_s: float, *more: str) -> Times:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--as-fresh", str(call_s), *more]
    return dict(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))


def rounds(
    count: int, call_s: float, forks: int, *more: str
) -> tuple[list[Times], list[list[Times]]]:
    """Times of the fresh processes, and of the forks by template."""
    order = random.SystemRandom()
    alone: list[Times] = []
    forked: list[list[Times]] = []
    for _ in range(0, count, forks):
        one = Template(*more)
        forked.append([])
        for _ in range(forks):
            for side in order.sample(("fresh", "forked"), 2):
                if side == "fresh":
                    alone.append(fresh(call_s, *more))
                else:
                    forked[-1].append(one.fork(call_s))
        one.close()
    return alone, forked


def row(name: str, alone: Sequence[Times], forked: Sequence[Sequence[Times]]) -> str:
    """One workload's figures."""
    own = [math.log(times[name]) for times in alone]
    groups = [[math.log(times[name]) for times in group] for group in forked]
    other = [each for group in groups for each in group]
    differences = [b - a for a, b in zip(own, other, strict=True)]
    half = distributions.t.ppf(0.975, len(own) - 1) * statistics.stdev(differences)
    half /= math.sqrt(len(own))
    middle = statistics.fmean(differences)
    within = statistics.fmean(statistics.variance(group) for group in groups)
    between = statistics.variance(map(statistics.fmean, groups)) - within / len(groups[0])
    share = max(0.0, between) / (max(0.0, between) + within)
    f = distributions.f_oneway(*groups)
    return (
        f"| {name} | {math.exp(middle):.4f} [{math.exp(middle - half):.4f}, "
        f"{math.exp(middle + half):.4f}] | {statistics.stdev(own):.2%} | "
        f"{math.sqrt(within):.2%} | {share:.0%} (p = {f.pvalue:.2g}) |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--calls-s", type=float, default=0.5)
    parser.add_argument("--forks", type=int, default=6)
    parser.add_argument("--bare", action="store_true", help="ONNX Runtime, without torch")
    parser.add_argument("--as-template", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--as-fresh", type=float, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.as_template:
        return template(bare=asked.bare)
    if asked.as_fresh:
        return print(json.dumps(workloads(asked.as_fresh, bare=asked.bare)))
    more = ["--bare"] if asked.bare else []
    alone, forked = rounds(asked.rounds, asked.calls_s, asked.forks, *more)
    found: dict[str, list[float]] = defaultdict(list)
    for times in alone:
        for name, seconds in times.items():
            found[name].append(seconds)
    print(f"{len(alone)} fresh processes, {len(forked)} templates of {asked.forks} forks")
    print(
        "| workload | forked / fresh | spread, fresh | spread, one template | between templates |"
    )
    print("|---|---|---|---|---|")
    for name in found:
        print(row(name, alone, forked))
    return None


if __name__ == "__main__":
    main()
