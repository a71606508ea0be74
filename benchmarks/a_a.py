"""Identical things against each other: how often is one called faster or slower?

Tables of real models: eager under three names, which differ in the tolerance of their parity check
only, beside two conversions; each table is run several times. Counted are false verdicts among the
three and false winners, p50 intervals of one thing that do not overlap from run to run, and
directions that change. Beside it, what tests that take calls for independent say of the same
processes. `doctor --calibrate` does the same with a fixed piece of work.

    python benchmarks/a_a.py --minutes 60               go on by calling it again
    python benchmarks/a_a.py --minutes 60 --busy 2      beside two busy loops
    python benchmarks/a_a.py --minutes 0                the tables of what there is
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from _evidence import (
    ALPHA,
    RESULTS,
    Record,
    Records,
    arguments,
    benchorch,
    busy,
    heading,
    most_by_chance,
)

if TYPE_CHECKING:
    from benchorch.domain.estimate import Estimate
    from benchorch.results.compare.stored_run import StoredTrial

COPY = """\
description: The baseline again.
tolerance_ratio: {tolerance}
steps: {{}}
runtime: {{_target_: benchorch.runtimes.eager.Eager}}
"""
NAMES = ("eager", "eager_2", "eager_3")
MODELS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "mlp": ((), ("onnxruntime", "torchscript")),
    "resnet18": (("model.inputs.x.shape=[batch_size,3,64,64]",), ("onnxruntime", "torchscript")),
    "bert_tiny": ((), ("onnxruntime", "torchscript")),
    "gpt2_tiny": ((), ("onnxruntime", "export")),
    "llama_tiny": ((), ("onnxruntime", "export")),
}
"""Each model's settings, and what stands beside eager."""

MOST_CALLS = 5_000
DECIDED = ("faster", "slower")


def main(given: argparse.Namespace) -> None:
    path = given.out or RESULTS / "a_a.jsonl"
    records = Records(path, ("busy", "model", "rerun"))
    cells = [
        {"busy": given.busy, "model": model, "rerun": rerun}
        for rerun in range(given.reruns)
        for model in given.models
    ]
    with busy(given.busy if given.minutes else 0):
        for cell in records.pending(cells, given.minutes) if given.minutes else ():
            began_s = time.monotonic()
            directory = measured(cell, given.scratch, given.budget)
            records.add(cell, found_in(directory), began_s)
    for loops in sorted({one["busy"] for one in records.all}):
        print("\n".join(report([one for one in records.all if one["busy"] == loops], loops)))


def measured(cell: Record, scratch: Path, budget_minutes: float) -> Path:
    """The directory of a table that was run now."""
    folder = scratch / "conf" / "conversion"
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(NAMES[1:], start=1):
        (folder / f"{name}.yaml").write_text(COPY.format(tolerance=1e-4 + number * 1e-6))
    settings, beside = MODELS[cell["model"]]
    directory = scratch / f"a_a-{cell['model']}-{cell['rerun']}-{time.time_ns()}"
    ended = benchorch(
        *("--config-dir", str(folder.parent), f"model={cell['model']}", *settings),
        f"conversion=[{','.join((*NAMES, *beside))}]",
        *("hardware.threads=1", "recorder=none", "profile=[]", f"budget.minutes={budget_minutes}"),
        *(f"store.root={scratch / 'store'}", f"hydra.run.dir={directory}"),
    )
    if not (directory / "results.jsonl").exists():
        raise SystemExit(f"{cell}: {ended.stdout[-1000:]} {ended.stderr[-2000:]}")
    return directory


def found_in(directory: Path) -> Record:
    """What a run says of each trial, of its winner and of each two candidates."""
    from benchorch.cli.commands.comparison_arguments import open_side
    from benchorch.journal.reader import read_results

    side = open_side(str(directory))
    trials = {one.trial.labels["conversion"]: one for one in side.trials if one.summary}
    names = {one.trial.trial_id: name for name, one in trials.items()}
    ends = next(one.summary for one in trials.values() if one.summary)
    control = next((one.summary.control for one in trials.values() if one.summary.control), None)
    return {
        "run": str(directory),
        "trials": {name: _trial(one) for name, one in trials.items()},
        "failures": {one.trial.labels["conversion"]: one.failure or one.disagreement
                     for one in side.trials if one.failure or one.disagreement},
        "best": sorted(names[one] for one in ends.best),
        "control": control and _ends(control.ratio),
        "against_each_other": _between([one for one in trials.values() if one.trial.baseline_id]),
        "naive": naive({one.trial_id: one for one in read_results(directory)}),
    }  # fmt: skip


def _trial(stored: StoredTrial) -> Record:
    summary = stored.summary
    assert summary is not None
    p50 = summary.metrics.get("latency_ms/p50")
    return {
        "p50_ms": p50 and _ends(p50),
        "processes_ms": stored.evidence.values.get("latency_ms/p50"),
        "pairs_ns": stored.evidence.pairs_ns,
        "verdict": summary.speedup and summary.speedup.verdict,
        "ratio": summary.speedup and _ends(summary.speedup.ratio),
        "adjusted_p": summary.speedup and summary.speedup.adjusted_p_value,
    }


def _ends(estimate: Estimate) -> list[float | None]:
    return [estimate.value, estimate.low, estimate.high, estimate.n]


def _between(candidates: Sequence[StoredTrial]) -> Record:
    """What `compare` says of the second of each two candidates."""
    from benchorch.results.compare.compatibility import excused_by
    from benchorch.results.compare.matching import match
    from benchorch.results.compare.verdicts import compare_cases

    found = {}
    across = excused_by(["conversion"])
    for a, b in itertools.combinations(candidates, 2):
        matches, _ = match([a], [b], across)
        (one,) = compare_cases([(matches[0], "latency_ms/p50")], across=across)
        names = (side.trial.labels["conversion"] for side in (a, b))
        found["|".join(names)] = one.verdict
    return found


def naive(results: Mapping[str, object]) -> Record:
    """How often a copy's process differs from one of the baseline, if calls are the evidence."""
    from scipy.stats import mannwhitneyu, ttest_ind

    sides = [
        (calls(ours), calls(theirs))
        for result in results.values()
        if result.baseline_id is not None and result.labels["conversion"] in NAMES
        for ours, theirs in zip(
            result.processes, results[result.baseline_id].processes, strict=False
        )
    ]
    welch = [ttest_ind(a, b, equal_var=False).pvalue < ALPHA for a, b in sides]
    ranks = [mannwhitneyu(a, b).pvalue < ALPHA for a, b in sides]
    return {"processes": len(sides), "welch": int(sum(welch)), "mann_whitney": int(sum(ranks))}


def calls(process) -> list[int]:
    """A process's steady blocks, as many as such tests can be given."""
    return list(process.observations.durations_ns[process.steady_from or 0 :][:MOST_CALLS])


def report(records: Sequence[Record], loops: int) -> Iterator[str]:
    """One row a model, and the sums with what chance allows."""
    yield heading(records, loops)
    yield (
        "| model | tables | identical pairs | called different | false winner "
        "| control without 1 | p50 overlap | decided | contradictions | calls as evidence |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    sums: Counter[str] = Counter()
    for model in dict.fromkeys(one["model"] for one in records):
        counts = counted([one for one in records if one["model"] == model])
        sums += counts
        yield _row(model, counts)
    yield _row("all", sums)
    yield (
        f"\nby chance, in 95 of 100 such experiments: at most {most_by_chance(sums['tables'])} of "
        f"{sums['tables']} tables with a false statement, found "
        f"{sums['false_tables']}; at most {most_by_chance(sums['controls'], 0.01)} controls. "
        "Intervals of one thing overlap in 99 of 100, if sessions do not differ."
    )
    for one in records:
        if one["failures"]:
            yield f"{one['model']}, rerun {one['rerun']}: {one['failures']}"


def counted(records: Sequence[Record]) -> Counter[str]:
    """The counts of one model's tables."""
    counts: Counter[str] = Counter()
    for one in records:
        pairs = dict(relations(one))
        same = [pairs[pair] for pair in itertools.combinations(NAMES, 2) if pair in pairs]
        false = sum(verdict in DECIDED for verdict in same)
        winner = len(one["best"]) == 1 and one["best"][0] in NAMES
        low, high = (one["control"] or [1, None, None])[1:3]
        counts.update(
            tables=1,
            pairs=len(same),
            false=false,
            winners=int(winner),
            false_tables=int(false > 0 or winner),
            controls=int(low is not None),
            off=int(low is not None and not low <= 1 <= high),
            looks=one["naive"]["processes"],
            naive=one["naive"]["mann_whitney"],
        )
    overlaps = [meet for name in _all_names(records) for meet in _overlaps(records, name)]
    counts.update(intervals=len(overlaps), overlapping=sum(overlaps), **_directions(records))
    return counts


def relations(record: Record) -> Iterator[tuple[tuple[str, str], str]]:
    """The verdict of the second of each two things."""
    for name, trial in record["trials"].items():
        if trial["verdict"]:
            yield (NAMES[0], name), trial["verdict"]
    for pair, verdict in record["against_each_other"].items():
        first, second = pair.split("|")
        yield (first, second), verdict


def _all_names(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(name for one in records for name in one["trials"]))


def _overlaps(records: Sequence[Record], name: str) -> Iterator[bool]:
    """Whether each two runs' p50 intervals of one thing overlap."""
    known = [one["trials"][name]["p50_ms"] for one in records if name in one["trials"]]
    ends = [(each[1], each[2]) for each in known if each and each[1] is not None]
    for (low, high), (other_low, other_high) in itertools.combinations(ends, 2):
        yield low <= other_high and other_low <= high


def _directions(records: Sequence[Record]) -> dict[str, int]:
    """How many pairs any run decided, and of how many the runs contradict each other."""
    seen: dict[tuple[str, str], set[str]] = {}
    for one in records:
        for pair, verdict in relations(one):
            if verdict in DECIDED:
                seen.setdefault(pair, set()).add(verdict)
    return {"decided": len(seen), "contradictions": sum(len(each) > 1 for each in seen.values())}


def _row(name: str, counts: Counter[str]) -> str:
    c = counts
    overlap = f"{c['overlapping']} of {c['intervals']}"
    cells = (
        *(name, c["tables"], c["pairs"], c["false"], c["winners"]),
        *(f"{c['off']} of {c['controls']}", overlap, c["decided"], c["contradictions"]),
        f"{c['naive']} of {c['looks']}",
    )
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    parser = arguments(__doc__, minutes=60)
    parser.add_argument("--reruns", type=int, default=4, help="of each table (4)")
    parser.add_argument("--budget", type=float, default=3, help="minutes a table may take (3)")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    main(parser.parse_args())
