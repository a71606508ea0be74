"""Do predicted changes come true? Programs are profiled, changed on paper, then really changed.

Threads that sleep and wait for each other (gate 2 %), the same threads with matrix products and
convolutions (10 % on a quiet machine), and graphs of ONNX Runtime from which operators are
removed. A prediction is the ratio of two makespans, and so is what is measured.

    python benchmarks/whatif_accuracy.py [sleep] [operators] [onnxruntime]
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.trace_lab.predicting import observed_ns, predicted_ratio
from support.trace_lab.two_threads import FAMILIES, Stage, profiled, scaled, sleeper, taken_ns

RESULTS = Path(__file__).resolve().parent / "results" / "whatif_accuracy.txt"
SLEEP_RATIO, OPERATOR_RATIO = 0.02, 0.10
ROUNDS = 15
QUIET_RATIO = 1.15  # a canary that is slower than at its best by more was disturbed
SILENT_RATIO = 0.01  # a change smaller than this has no sign that could be wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A change as predicted and as measured; `naive` adds the stages' differences."""

    program: str
    change: str
    predicted: float
    naive: float
    measured: float

    @property
    def error(self) -> float:
        """By how much the prediction is too high, as a share of what was measured."""
        return self.predicted / self.measured - 1

    @property
    def sign_is_right(self) -> bool:
        """Whether faster is faster; a change that hardly changes anything has no sign."""
        if abs(self.measured - 1) < SILENT_RATIO or abs(self.predicted - 1) < SILENT_RATIO:
            return abs(self.measured - self.predicted) < OPERATOR_RATIO
        return (self.predicted > 1) == (self.measured > 1)

    def row(self) -> str:
        """A Markdown row."""
        naive = self.naive / self.measured - 1
        return (
            f"| {self.program} | {self.change} | {self.measured - 1:+.1%} "
            f"| {self.predicted - 1:+.1%} | {self.error:+.1%} | {naive:+.1%} |"
        )


def sleeping(place: Path) -> Iterator[Outcome]:
    """A profile per program; then it and the changed one in turns, the fastest of five each.

    Sleep is never too short: whoever else is on the machine can only add to it.
    """
    for name, family in FAMILIES.items():
        base = partial(family.run, sleeper(family.stages_ms))
        trace = _fastest_profile(base, place)
        for change, factors in family.changes.items():
            after = partial(family.run, sleeper(scaled(family.stages_ms, factors)))
            base_ns, after_ns = _in_turns([base, after], 5, min)
            delta_ms = sum(family.stages_ms[stage] * (f - 1) for stage, f in factors.items())
            yield Outcome(
                program=f"sleep: {name}",
                change=change,
                predicted=predicted_ratio(trace, factors),
                naive=1 + delta_ms * 1e6 / base_ns,
                measured=after_ns / base_ns,
            )


def operators(place: Path) -> Iterator[Outcome]:
    """Stages repeat an operator; a change is another number of repetitions.

    A machine's speed drifts, and in one call a stage may be slow off the path, where it hides: so a
    profile, a run and a changed run take turns, and the medians of what each round says are held
    against each other. A round counts only if two threads at once were as fast as at their best
    before it and after it: that is what a quiet machine is here.
    """
    import torch

    torch.set_num_threads(1)
    for work, operator in _operators().items():
        each_ns = _in_turns([operator], 30, min)[0]
        quiet = _Quiet(operator)
        for name, family in FAMILIES.items():
            counts = {stage: max(2, 2 * round(ms / 8)) for stage, ms in family.stages_ms.items()}
            base = partial(family.run, _repeating(operator, counts))
            for change, factors in family.changes.items():
                changed = {stage: round(n * factors.get(stage, 1)) for stage, n in counts.items()}
                after = partial(family.run, _repeating(operator, changed))
                exact = {stage: changed[stage] / n for stage, n in counts.items() if n}
                more_ns = each_ns * (sum(changed.values()) - sum(counts.values()))
                rounds = quiet.rounds(partial(_round, base, after, exact, more_ns, place))
                predicted, naive, measured = map(statistics.median, zip(*rounds, strict=True))
                yield Outcome(
                    program=f"{work}: {name}",
                    change=change,
                    predicted=predicted,
                    naive=naive,
                    measured=measured,
                )


class _Quiet:
    """Rounds during which nobody else was on the machine's cores."""

    disturbed = 0
    counted = 0

    def __init__(self, operator: Callable[[], object]) -> None:
        """Of a machine that two threads keep busy with an operator."""
        self.operator = operator
        self.best_ns = min(self._canary_ns() for _ in range(20))

    def _canary_ns(self) -> int:
        def work() -> None:
            for _ in range(20):
                self.operator()

        def both() -> None:
            thread = threading.Thread(target=work)
            thread.start()
            work()
            thread.join()

        return taken_ns(both)

    def rounds(
        self, one: Callable[[], tuple[float, float, float]]
    ) -> Sequence[tuple[float, float, float]]:
        """So many that count, or fewer where the machine is not quiet often enough."""
        found = []
        for _ in range(5 * ROUNDS):
            before_ns, said, after_ns = self._canary_ns(), one(), self._canary_ns()
            if max(before_ns, after_ns) > QUIET_RATIO * self.best_ns:
                _Quiet.disturbed += 1
                continue
            _Quiet.counted += 1
            found.append(said)
            if len(found) == ROUNDS:
                break
        return found


def _round(
    base: Callable[[], None],
    after: Callable[[], None],
    factors: Mapping[str, float],
    more_ns: float,
    place: Path,
) -> tuple[float, float, float]:
    """What a profile predicts, what adding the difference says, and what it really came to."""
    trace = profiled(base, place / "trace.json")
    base_ns, after_ns = taken_ns(base), taken_ns(after)
    return predicted_ratio(trace, factors), 1 + more_ns / base_ns, after_ns / base_ns


def _operators() -> Mapping[str, Callable[[], object]]:
    import torch

    matrix = torch.randn(384, 384)
    image, kernel = torch.randn(1, 32, 56, 56), torch.randn(32, 32, 3, 3)
    return {
        "matrix products": lambda: torch.mm(matrix, matrix),
        "convolutions": lambda: torch.conv2d(image, kernel, padding=1),
    }


def _repeating(operator: Callable[[], object], counts: Mapping[str, int]) -> Stage:
    from torch.profiler import record_function

    def stage(name: str) -> None:
        with record_function(name):
            for _ in range(counts[name]):
                operator()

    return stage


def _fastest_profile(program: Callable[[], None], place: Path, times: int = 4) -> Path:
    """The one of several profiles in which the program took least."""
    traces = [profiled(program, place / f"trace{number}.json") for number in range(times)]
    return min(traces, key=observed_ns)


def _in_turns(
    programs: Sequence[Callable[[], Any]], rounds: int, best: Callable[[Iterable[int]], float]
) -> list[float]:
    """Nanoseconds of each program, in turns; the fastest of many where others share the machine."""
    series = ([taken_ns(program) for program in programs] for _ in range(rounds))
    return [best(taken) for taken in zip(*series, strict=True)]


def onnx_sessions(place: Path) -> Iterator[Outcome]:
    """Two branches of square products; some are removed, and the model is really built again."""
    inputs = {"x": np.ones((192, 192), np.float32) / 192}
    base = _session(place, frozenset(), profiled=True)
    for _ in range(100):
        base.run(None, inputs)
    trace = Path(base.end_profiling())
    sets = {
        "half of a branch": [f"left_{i}" for i in range(4)],
        "a whole branch": [f"right_{i}" for i in range(8)],
        "every other node": [f"{side}_{i}" for side in _SIDES for i in range(0, 8, 2)],
        "one node": ["left_5"],
    }
    for change, removed in sets.items():
        both = [_session(place, frozenset(names)) for names in ((), removed)]
        runs = [partial(one.run, None, inputs) for one in both]
        base_ns, after_ns = _in_turns(runs, 400, min)
        ratio = predicted_ratio(trace, dict.fromkeys(removed, 0.0))
        yield Outcome(
            program="ONNX Runtime",
            change=f"without {change}",
            predicted=ratio,
            naive=1 - len(removed) / 16,
            measured=after_ns / base_ns,
        )


_SIDES = ("left", "right")


def _session(place: Path, removed: frozenset[str], *, profiled: bool = False) -> Any:
    """A session of the graph without some of its nodes."""
    import onnx
    import onnxruntime as ort
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(0)
    nodes, weights, ends = [], [], []
    for side in _SIDES:
        end = "x"
        for name in (f"{side}_{i}" for i in range(8)):
            if name in removed:
                continue
            weight = rng.standard_normal((192, 192)).astype(np.float32) / 192
            weights.append(numpy_helper.from_array(weight, f"{name}.weight"))
            nodes.append(helper.make_node("MatMul", [end, f"{name}.weight"], [name], name=name))
            end = name
        ends.append(end)
    nodes.append(helper.make_node("Mul", ends, ["y"], name="join"))
    shape = [192, 192]
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, shape) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "branches", values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_profiling = profiled
    options.profile_file_prefix = str(place / "session")
    providers = ["CPUExecutionProvider"]
    return ort.InferenceSession(model.SerializeToString(), options, providers=providers)


GATES = {"sleep": SLEEP_RATIO, "operators": OPERATOR_RATIO, "onnxruntime": OPERATOR_RATIO}
KINDS = {"sleep": sleeping, "operators": operators, "onnxruntime": onnx_sessions}


def summary(kind: str, outcomes: list[Outcome]) -> str:
    """One line: the worst error, the gate, and how many signs are right."""
    errors = [outcome.error for outcome in outcomes]
    right = sum(outcome.sign_is_right for outcome in outcomes)
    return (
        f"{kind}: errors {min(errors):+.1%} to {max(errors):+.1%}, median of their sizes "
        f"{statistics.median(map(abs, errors)):.1%} (gate {GATES[kind]:.0%}); "
        f"right sign in {right} of {len(outcomes)}"
    )


def main() -> None:
    chosen = [name for name in sys.argv[1:] if name in KINDS] or list(KINDS)
    head = "| program | change | measured | predicted | error | error of adding the differences |"
    lines, summaries = [head, "|---|---|---|---|---|---|"], []
    with tempfile.TemporaryDirectory() as at:
        for kind in chosen:
            outcomes = list(KINDS[kind](Path(at)))
            lines += [outcome.row() for outcome in outcomes]
            summaries.append(summary(kind, outcomes))
    if _Quiet.counted:
        summaries.append(
            f"operators: {_Quiet.disturbed} of {_Quiet.counted + _Quiet.disturbed} rounds were "
            "disturbed and do not count"
        )
    busy = f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end"
    text = "\n".join([*lines, "", *summaries, busy])
    print(text)
    RESULTS.write_text(text + "\n")


if __name__ == "__main__":
    main()
