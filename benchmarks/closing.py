"""What does it cost to come to an end? Each trial's share of it, against decoding what it left.

A sweep of synthetic results, drawn and not measured, goes through the real pipeline and journal.
The floor is `json.loads` of every line that the sweep has left, by itself.

    close     from the last result until the table is there, in the process that has run the sweep
    resume    in a new process: the journal read, nothing left to run, the table again
    report    `benchorch report RUN`, everything derived anew
    status    `benchorch status RUN`

CPU seconds, each side in turn in processes of its own; the median of the rounds (min to max).

Run: python benchmarks/closing.py [TRIALS [ROUNDS]] | tee benchmarks/results/closing.txt
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from _harness import python

from benchorch.config.composer import Composer, config_loader
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.interfaces.executor import Emit, Executor, TrialRunner
from benchorch.results.report.console import ConsoleReport
from benchorch.run.invocation import Invocation
from support.synthetic_runs import failed, result, trial

CONVERSIONS = ("eager", "inductor", "onnxruntime", "aot_inductor", "bf16+inductor")
KINDS = ("c7i.large", "g5.xlarge", "g6.xlarge", "r6i.large")
MODELS = ("bert", "gpt2", "mlp", "resnet50")
PROCESSES = 5
FAILED_EVERY = 97
SESSION = {
    "tracking": {"_target_": "benchorch.recorders.none.Nowhere"},
    "store": {},
    "rebuild": "if_needed",
    "cwd": ".",
}


def sweep(count: int) -> Iterator[tuple[Trial, TrialResult]]:
    """Trials with their results: every case with the same draws, under names of its own."""
    drawn: dict[str, TrialResult] = {}
    baseline: Trial | None = None
    for number in range(count):
        case, which = divmod(number, len(CONVERSIONS))
        sizes, place = divmod(case, len(MODELS) * len(KINDS))
        conversion, kind = CONVERSIONS[which], KINDS[place % len(KINDS)]
        model, batch_size = MODELS[place // len(KINDS)], sizes + 1
        one = trial(
            conversion,
            baseline=None if conversion == CONVERSIONS[0] else baseline,
            labels={"model": model, "hardware": kind, "hardware_kind": kind},
            model={"name": model},
            hardware={"kind": kind},
            workload={"batch_size": batch_size},
        )
        baseline = one if conversion == CONVERSIONS[0] else baseline
        if conversion not in drawn:
            call_ns = 1e6 * (1 - 0.1 * len(drawn))
            pairs = {} if one.baseline_id is None else {"baseline_ns": 1e6}
            drawn[conversion] = result(one, call_ns, processes=PROCESSES, **pairs)
        found = replace(
            drawn[conversion],
            trial_id=one.trial_id,
            labels=one.labels,
            baseline_id=one.baseline_id,
        )
        yield one, failed(one) if number % FAILED_EVERY == FAILED_EVERY - 1 else found


@dataclass(frozen=True)
class Told(Executor):
    """Every result is there at once."""

    results: Sequence[TrialResult]

    def unreachable(self, hardware_kind: str) -> str | None:
        """Nothing has to be reached."""
        return None

    def run(self, trials: Sequence[Trial], work: TrialRunner, emit: Emit) -> Iterator[TrialResult]:
        """In the plan's order."""
        return iter(self.results)


def invocation(directory: Path) -> Invocation:
    from rich.console import Console

    return Invocation(
        composer=Composer(config_loader()),
        directory=directory,
        report=ConsoleReport(Console(file=StringIO(), width=160)),
        plan_id="closing",
    )


def close(directory: Path, count: int) -> float:
    """CPU seconds from the last result to the end; leaves the run for the other sides."""
    trials, results = zip(*sweep(count), strict=True)
    plan = Plan(plan_id="closing", name="closing", trials=trials, skips=(), session=SESSION)
    run = invocation(directory)
    run.open()
    run.run_plan(plan, Told(results))
    return taken(lambda: run.close(complete=True))


def resume(directory: Path, count: int) -> float:
    def again() -> None:
        run = invocation(directory)
        run.open()
        assert run.plan is not None
        run.run_plan(run.plan, Told(()))
        run.close(complete=True)

    return taken(again)


def report(directory: Path, count: int) -> float:
    from benchorch.cli.commands import report

    return taken(lambda: report.run.reply([str(directory)]))


def status(directory: Path, count: int) -> float:
    from benchorch.cli.commands import status

    return taken(lambda: status.run.reply([str(directory)]))


def floor(directory: Path, count: int) -> float:
    files = [directory / "results.jsonl", *directory.glob("trials/*/observations.jsonl")]

    def decode() -> None:
        for path in files:
            for line in path.open("rb"):
                json.loads(line)

    return taken(decode)


def taken(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


SIDES = {"floor": floor, "close": close, "resume": resume, "report": report, "status": status}


def alone(side: str, directory: Path, count: int) -> float:
    """What a side took in a process of its own."""
    command = python(__file__, side, str(directory), str(count))
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.splitlines()[-1])


def main(count: int = 1_500, rounds: int = 3) -> None:
    """The table."""
    seen: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as root:
        os.environ["XDG_STATE_HOME"] = root
        for number in range(rounds):
            directory = Path(root, str(number))
            for side in ("close", "floor", "status", "report", "resume"):
                seen.setdefault(side, []).append(alone(side, directory, count))
    print(f"{count} trials of {PROCESSES} processes, {rounds} rounds")
    print("| what | CPU ms a trial | against decoding |\n|---|---|---|")
    for name in SIDES:
        each_ms = [1e3 * s / count for s in seen[name]]
        ratios = [s / base for s, base in zip(seen[name], seen["floor"], strict=True)]
        print(f"| {name} | {spread(each_ms)} | {spread(ratios)} |")


def spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in SIDES:
        print(SIDES[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3])))
    else:
        main(*map(int, sys.argv[1:]))
