"""Identical things against each other: how often is one called faster or slower?

First through real trials: copies of the eager conversion that differ in the tolerance of their
parity check only, so that each is a trial of its own; beside it, what tests that take calls for
independent say of the same processes. Then, because a rate needs many comparisons, a fixed piece
of work against itself in twelve fresh processes each, as `benchorch doctor` does.

    python benchmarks/a_a.py [COPIES] [COMPARISONS]     3 and 10; 20 and 40 give a useful rate
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from _harness import ROOT, python

COPY = """\
description: The baseline again.
tolerance_ratio: {tolerance}
steps: {{}}
runtime: {{_target_: benchorch.runtimes.eager.Eager}}
"""
ALPHA = 0.05
MOST_CALLS = 5_000


def main(copies: int, comparisons: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        results = measured(Path(scratch), copies)
        print(f"| identical trials, {copies} copies of eager | called different |")
        print("|---|---|")
        verdicts = Counter(verdict for verdict, _ in judged(results))
        false = verdicts["faster"] + verdicts["slower"]
        told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
        print(f"| benchorch: pairs inside fresh processes | {false} of {copies} ({told}) |")
        for name, (rejected, looks) in naive(results).items():
            print(f"| {name} | {rejected} of {looks} ({rejected / looks:.0%}) |")
        print()
        for verdict, text in judged(results):
            print(f"{verdict:>14}  {text}")
        print()
        fixed_work(Path(scratch), comparisons)


def fixed_work(scratch: Path, comparisons: int) -> None:
    """Verdicts on a piece of work against itself, and against a tenth more of it."""
    from benchorch.cli.commands.doctor.self_comparison import PROCESSES, controls

    found = [controls(scratch / "log.txt", window_s=0.2, seed=seed) for seed in range(comparisons)]
    print(
        f"| fixed work, {PROCESSES} fresh processes | faster or slower | median reach of interval |"
    )
    print("|---|---|---|")
    for name, what in (("same", "against itself"), ("slower", "a tenth more of it")):
        sides = [getattr(each, name) for each in found]
        told = sum(side.verdict in ("faster", "slower") for side in sides)
        reach = statistics.median(side.ratio.high / side.ratio.value - 1 for side in sides)
        print(f"| {what} | {told} of {comparisons} ({told / comparisons:.0%}) | {reach:.2%} |")


def measured(scratch: Path, copies: int):
    """The results of one run over eager and its copies, with every block."""
    from benchorch.journal.run_directory import read_results

    folder = scratch / "conf" / "conversion"
    folder.mkdir(parents=True)
    names = [f"copy_{number}" for number in range(1, copies + 1)]
    for number, name in enumerate(names, start=1):
        (folder / f"{name}.yaml").write_text(COPY.format(tolerance=1e-4 + number * 1e-6))
    words = [
        *("--config-dir", str(scratch / "conf"), "model=mlp", "hardware.threads=1"),
        *(f"conversion=[eager,{','.join(names)}]", "recorder=none"),
        *(f"store.root={scratch / 'store'}", f"hydra.run.dir={scratch / 'run'}"),
    ]
    subprocess.run(
        python("-m", "benchorch", *words), check=True, cwd=ROOT, stdout=subprocess.DEVNULL
    )
    return {result.trial_id: result for result in read_results(scratch / "run")}


def judged(results: Mapping[str, object]) -> list[tuple[str, str]]:
    """Each copy's verdict against the baseline, read alone, with its ratio and design."""
    from benchorch.results.metrics.summary import summarise

    found = []
    for result in results.values():
        if result.baseline_id is None:
            continue
        compared = summarise(result, results[result.baseline_id]).speedup
        ratio = compared.ratio
        interval = "" if ratio.low is None else f" [{ratio.low:.4f}, {ratio.high:.4f}]"
        shape = f"{compared.design}, {ratio.n} pairs, stopped: {result.stop_reason}"
        found.append((compared.verdict, f"{ratio.value:.4f}{interval}, {shape}"))
    return found


def naive(results: Mapping[str, object]) -> dict[str, tuple[int, int]]:
    """How often a process of a copy differs from one of the baseline, if calls are the evidence."""
    from scipy.stats import mannwhitneyu, ttest_ind

    tests = {
        "Welch's t on the calls of one process each": lambda a, b: (
            ttest_ind(a, b, equal_var=False).pvalue
        ),
        "Mann-Whitney on the calls of one process each": lambda a, b: mannwhitneyu(a, b).pvalue,
    }
    sides = [
        (calls(ours), calls(theirs))
        for result in results.values()
        if result.baseline_id is not None
        for ours, theirs in zip(
            result.processes, results[result.baseline_id].processes, strict=False
        )
    ]
    return {
        name: (sum(bool(test(a, b) < ALPHA) for a, b in sides), len(sides))
        for name, test in tests.items()
    }


def calls(process) -> list[int]:
    """A process's steady blocks, as many as such tests can be given."""
    return list(process.observations.durations_ns[process.steady_from or 0 :][:MOST_CALLS])


if __name__ == "__main__":
    started = time.perf_counter()
    given = [int(word) for word in sys.argv[1:]]
    main(*(given + [3, 10][len(given) :]))
    print(f"\n{time.perf_counter() - started:.0f} s", file=sys.stderr)
