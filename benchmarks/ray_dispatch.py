"""No-op trials per second through the Ray executor, against what Ray itself can do.

On one local cluster, in interleaved rounds:

    raw calls           every trial issued at once to one actor: Ray's ceiling for one slot
    executor            `RayExecutor.run`: assignments, results, exactly one each
    executor + journal  and each result made durable by `run_directory.append_results`, those that
                        are there at the same time with one fsync
    executor + fsync    and each result made durable by itself
    journal             `append_result` alone, without Ray
    task per trial      a Ray task for each trial with a hundredth of a CPU

Run: python benchmarks/ray_dispatch.py [ROUNDS [TRIALS]]
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from _harness import interleave, ratio_row, table

from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Trial
from benchorch.executors.ray import RayExecutor
from benchorch.executors.ray_cluster import connected
from benchorch.executors.scheduling.cluster_file import RESOURCE_PREFIX
from benchorch.interfaces.executor import Emit
from benchorch.journal import run_directory

SPEC_BYTES = 2000
FEW = 200  # tasks are slow enough
Write = Callable[[Path, Sequence[TrialResult]], None]


def no_op(trial: Trial, *, attempt: int, isolated: bool, emit: Emit) -> TrialResult:
    """The least a trial can be."""
    return TrialResult(trial_id=trial.trial_id, labels=trial.labels, outcome=Outcome.OK)


def make_trials(count: int) -> list[Trial]:
    labels = {"hardware_kind": "local", "model": "no_op"}
    spec = {"padding": "x" * SPEC_BYTES}
    return [Trial(trial_id=f"{i:016x}", labels=labels, spec=spec) for i in range(count)]


def append_together(directory: Path, results: Sequence[TrialResult]) -> None:
    run_directory.append_results(directory, [(result, {}) for result in results])


def append_each(directory: Path, results: Sequence[TrialResult]) -> None:
    for result in results:
        run_directory.append_result(directory, result, {})


def per_trial(count: int, run: Callable[[], float | None]) -> tuple[float, float]:
    """Seconds of wall and of this process's CPU per trial, from when `run` says it began."""
    cpu_s = time.process_time()
    began_s = time.monotonic()
    late_s = run() or began_s
    return (time.monotonic() - late_s) / count, (time.process_time() - cpu_s) / count


def through_executor(trials: Sequence[Trial], write: Write | None) -> float:
    """When the first result came: the start of an agent is no rate."""
    groups = RayExecutor(address="auto").run_grouped(trials, no_op, lambda event: None)
    first_s = 0.0
    with tempfile.TemporaryDirectory() as directory:
        for results in groups:
            first_s = first_s or time.monotonic()
            if write is not None:
                write(Path(directory), results)
    return first_s


def raw_calls(trials: Sequence[Trial]) -> float:
    import ray

    class Echo:
        def run(self, trial: Trial, attempt: int) -> TrialResult:
            return no_op(trial, attempt=attempt, isolated=True, emit=print)

    actor = ray.remote(Echo).options(num_cpus=0, resources={f"{RESOURCE_PREFIX}local": 1}).remote()
    ray.get(actor.run.remote(trials[0], 1))
    began_s = time.monotonic()
    ray.get([actor.run.remote(trial, 1) for trial in trials])
    ray.kill(actor)
    return began_s


def task_per_trial(trials: Sequence[Trial]) -> None:
    import ray

    task = ray.remote(num_cpus=0.01)(no_op)
    ray.get([task.remote(trial, attempt=1, isolated=True, emit=print) for trial in trials])


def journal_alone(trials: Sequence[Trial]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for trial in trials:
            append_each(Path(directory), [no_op(trial, attempt=1, isolated=True, emit=print)])


def main(rounds: int = 5, count: int = 2000) -> None:
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    trials = make_trials(count)
    sides = {
        "raw calls": lambda: per_trial(count, lambda: raw_calls(trials)),
        "executor": lambda: per_trial(count, lambda: through_executor(trials, None)),
        "executor + journal": lambda: per_trial(
            count, lambda: through_executor(trials, append_together)
        ),
        "executor + fsync": lambda: per_trial(count, lambda: through_executor(trials, append_each)),
        "journal": lambda: per_trial(count, lambda: journal_alone(trials)),
        "task per trial": lambda: per_trial(FEW, lambda: task_per_trial(trials[:FEW])),
    }
    with connected(None):
        seen = interleave(sides, rounds)
    for name, samples in seen.items():
        rates = [1 / wall_s for wall_s, _ in samples]
        print(f"{name:20s} {statistics.median(rates):6.0f} trials/s")
    goals = {"executor": "≤ 3.3", "executor + journal": "≤ 2", "executor + fsync": ""}
    rows = [ratio_row(f"{n} / raw calls", seen, n, "raw calls", g) for n, g in goals.items()]
    rows.append(ratio_row("task per trial / executor", seen, "task per trial", "executor", "≥ 10"))
    print(table(rows))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
