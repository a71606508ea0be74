"""Differences of 0, 2, 5 and 10 % that are known: what do compare, gate and duel make of them?

A module multiplies matrices 100, 102, 105 or 110 times: its amount of work is in a file beside it,
in a repository of its own. What that is worth in time a bare loop measures, without benchorch, in
one process that interleaves all amounts. A session runs the module with 100 products, and then all
amounts in random order; `compare` and `gate` judge each against the first, alone and with the
earlier sessions as `--session`. `duel` runs each amount against the commit that has 100.

    python benchmarks/known_differences.py --minutes 60                 go on by calling it again
    python benchmarks/known_differences.py --minutes 0                  the table of what there is
    python benchmarks/known_differences.py --against REV --minutes 10   duel of this repository
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from _evidence import (
    RESULTS,
    Record,
    Records,
    answer,
    arguments,
    benchorch,
    busy,
    heading,
    least_by_chance,
    most_by_chance,
)
from _harness import python

SHARES = (0.0, 0.02, 0.05, 0.1)
LIMIT = 0.02
PRODUCTS = 100
NET = """\
import torch
from amount import PRODUCTS


class Work(torch.nn.Module):
    def __init__(self, products=PRODUCTS):
        super().__init__()
        self.products = products
        self.weight = torch.nn.Parameter(torch.eye(64))

    def forward(self, input):
        for _ in range(self.products):
            output = input @ self.weight
        return output
"""
BARE = """\
import json, random, sys, time
import torch
from net import Work
torch.set_num_threads(1)
amounts = [round(100 * (1 + share)) for share in json.loads(sys.argv[1])]
order = random.SystemRandom()
places = order.sample(range(len(amounts)), len(amounts))
input = torch.randn(64, 64)
modules, times = {}, {place: [] for place in places}
for place in places:
    modules[place] = Work(amounts[place]).eval()
with torch.inference_mode():
    for slice in range(int(sys.argv[2]) + 1):
        order.shuffle(places)
        for place in places:
            module = modules[place]
            for call in range(32):
                began = time.perf_counter_ns()
                module(input)
                ended = time.perf_counter_ns()
                if slice and call > 3:
                    times[place].append(ended - began)
def quantile(place, share):
    return sorted(times[place])[int(share * len(times[place]))]
print(json.dumps([[quantile(p, s) / quantile(0, s) for s in (0.5, 0.01)] for p in sorted(times)]))
"""
WORDS = (
    *("model=factory", "model.factory=net:Work", "conversion=eager", "hardware.threads=1"),
    "model.inputs={input: {shape: [batch_size, 64], generator: normal}}",
    *("workload.batch_size=64", "stopping=fixed", "stopping.window_s=0.3", "stopping.calls=50"),
)
SLICES = 60
GIT = ("git", "-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org")


def main(given: argparse.Namespace) -> None:
    records = Records(given.out or RESULTS / "known_differences.jsonl", ("busy", "kind", "session"))
    repository = made(given.scratch / "repository")
    cells = [
        {"busy": given.busy, "kind": kind, "session": session}
        for session in range(given.sessions)
        for kind in ("bare loop", "sessions", *(f"duel {share:.0%}" for share in SHARES))
    ]
    with busy(given.busy if given.minutes else 0):
        for cell in records.pending(cells, given.minutes) if given.minutes else ():
            began_s = time.monotonic()
            records.add(cell, found_in(cell, repository, records, given), began_s)
    for loops in sorted({one["busy"] for one in records.all}):
        print("\n".join(report([one for one in records.all if one["busy"] == loops], loops)))


def made(repository: Path) -> Path:
    """The repository, with 100 products in its commit."""
    if not (repository / ".git").exists():
        repository.mkdir(parents=True, exist_ok=True)
        (repository / "net.py").write_text(NET)
        work(repository, 0.0)
        for words in (
            ("init", "--quiet"),
            ("add", "."),
            ("commit", "--quiet", "-m", "100 products"),
        ):
            subprocess.run((*GIT, *words), cwd=repository, check=True)
    return repository


def work(repository: Path, share: float) -> None:
    """Set the amount of work."""
    (repository / "amount.py").write_text(f"PRODUCTS = {round(PRODUCTS * (1 + share))}\n")


def found_in(cell: Record, repository: Path, records: Records, given: argparse.Namespace) -> Record:
    """One cell, measured now."""
    if cell["kind"] == "bare loop":
        return {"ratios": bare(repository)}
    if cell["kind"] == "sessions":
        return session(repository, cell, records, given)
    share = float(cell["kind"].split()[1].rstrip("%")) / 100
    work(repository, share)
    return {"share": share, **duelled(repository, given)}


def bare(repository: Path) -> list[list[float]]:
    """For each share the ratio to no more work, of medians and of floors."""
    words = python("-c", BARE, json.dumps(SHARES), str(SLICES))
    ended = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


def session(repository: Path, cell: Record, records: Records, given: argparse.Namespace) -> Record:
    """The base, then every amount, each as a run of its own; each judged against the base."""
    order: list[float | None] = list(random.SystemRandom().sample(SHARES, len(SHARES)))
    runs = {share: ran(repository, share or 0.0, given) for share in [None, *order]}
    base = runs.pop(None)
    earlier = [
        run
        for one in records.all
        if one["kind"] == "sessions" and one["busy"] == cell["busy"] and Path(one["base"]).exists()
        for run in (one["base"], one["judged"]["0.0"]["run"])
    ]
    judged = {str(share): judgement(repository, base, run, earlier) for share, run in runs.items()}
    return {"base": base, "order": order, "earlier": len(earlier), "judged": judged,
            "processes": given.processes}  # fmt: skip


def ran(repository: Path, share: float, given: argparse.Namespace) -> str:
    """The directory of a run with so much more work."""
    work(repository, share)
    directory = given.scratch / f"session-{share:g}-{time.time_ns()}"
    ended = benchorch(
        *(*WORDS, f"stopping.processes={given.processes}", "profiler=none", "recorder=none"),
        *(f"store.root={given.scratch / 'store'}", f"hydra.run.dir={directory}"),
        folder=repository,
    )
    if not (directory / "results.jsonl").exists():
        raise SystemExit(f"{share}: {ended.stdout[-1000:]} {ended.stderr[-2000:]}")
    return str(directory)


def judgement(repository: Path, base: str, run: str, earlier: Sequence[str]) -> Record:
    """What compare and gate say, without earlier sessions and with them."""
    known = [word for each in earlier for word in ("--session", each)]
    gate = ("gate", "--baseline", base, "--candidate", run, "--max-regression", str(LIMIT))
    compared = ("compare", base, run)
    found: Record = {"run": run}
    for name, words in (("", []), (" with sessions", known)):
        if words or not name:
            found[f"gate{name}"] = _gated(answer(*gate, *words, key="cases", folder=repository))
            verdicts = answer(*compared, *words, key="comparisons", folder=repository)
            (one,) = verdicts["floors" if verdicts["by_floor"] else "comparisons"]
            found[f"compare{name}"] = {"state": one["verdict"], "ratio": _ends(one["ratio"])}
    return found


def duelled(repository: Path, given: argparse.Namespace) -> Record:
    """What a duel of the folder against its commit says."""
    directory = given.scratch / f"duel-{time.time_ns()}"
    found = answer(
        *("duel", "--against", "HEAD", *WORDS, "--max-regression", str(LIMIT)),
        *("--minutes", str(given.duel_minutes), "--directory", str(directory)),
        key="cases",
        folder=repository,
    )
    pairs = [json.loads(line) for line in (directory / "pairs.jsonl").read_text().splitlines()]
    return {**_gated(found), "pairs": [[one["new"], one["old"], one["new_first"]] for one in pairs]}


def _gated(found: Record) -> Record:
    (case,) = found["cases"]
    shown: Record = {"state": case["state"], "exit_code": found["exit_code"]}
    for name in ("judged", "floor"):
        one = case[name]
        shown[name] = one and {"verdict": one["verdict"], "ratio": _ends(one["ratio"])}
    return shown


def _ends(ratio: Mapping[str, float] | None) -> list[float] | None:
    return ratio and [ratio[key] for key in ("value", "low", "high", "n")]


def report(records: Sequence[Record], loops: int) -> Iterator[str]:
    """What the bare loop measures, and a row for each judge and each true difference."""
    yield heading(records, loops)
    yield "| more work | time by the bare loop | floor by the bare loop | processes |"
    yield "|---|---|---|---|"
    bare_loops = [one["ratios"] for one in records if one["kind"] == "bare loop"]
    for place, share in enumerate(SHARES if bare_loops else ()):
        cells = [_mean([one[place][of] for one in bare_loops]) for of in (0, 1)]
        yield f"| {share:.0%} | {cells[0]} | {cells[1]} | {len(bare_loops)} |"
    heads = "regression or slower | pass or equivalent | faster | unclear | required"
    yield f"\n| judge | more work | {heads} |"
    yield "|---|---|---|---|---|---|---|"
    for (judge, share), states in sorted(_states(records).items()):
        yield _row(judge, share, Counter(states))
    seconds = [one["seconds"] for one in records if one["kind"].startswith("duel")]
    if seconds:
        yield f"\na duel: {statistics.median(seconds):.0f} s, at most {max(seconds):.0f} s"


def _mean(ratios: Sequence[float]) -> str:
    """Geometric mean over processes with Student's 95 % interval."""
    from scipy.stats import t

    logs = [math.log(one) for one in ratios]
    middle = statistics.fmean(logs)
    if len(logs) < 3:
        return f"{math.exp(middle):.4f}"
    reach = t.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = math.exp(middle - reach), math.exp(middle + reach)
    return f"{math.exp(middle):.4f} [{low:.4f}, {high:.4f}]"


def _states(records: Sequence[Record]) -> Mapping[tuple[str, float], list[str]]:
    found: dict[tuple[str, float], list[str]] = {}
    for one in records:
        if one["kind"].startswith("duel"):
            found.setdefault(("duel", one["share"]), []).append(one["state"])
        elif one["kind"] == "sessions":
            for share, judged in one["judged"].items():
                for name in judged.keys() - {"run"}:
                    state = judged[name]["state"]
                    found.setdefault((name, float(share)), []).append(state)
    return found


def _row(judge: str, share: float, states: Counter[str]) -> str:
    """Counts, and whether chance explains that they differ from what is required."""
    count = states.total()
    worse = states["regression"] + states["slower"]
    faster, fine = states["faster"], states["pass"] + states["equivalent"]
    needed = ""
    if share < LIMIT:
        most = most_by_chance(count)
        needed = f"at most {most} worse or faster{'' if worse + faster <= most else ': MISSED'}"
    elif share > LIMIT:
        least = least_by_chance(count, 0.9)
        needed = f"at least {least} worse{'' if worse >= least else ': MISSED'}"
    unclear = count - worse - faster - fine
    cells = (judge, f"{share:.0%}", worse, fine, faster, unclear, needed)
    return f"| {' | '.join(map(str, cells))} |"


def own_duel(given: argparse.Namespace) -> None:
    """The folder of this repository against one of its revisions, by tiny models."""
    records = Records(given.out or RESULTS / "own_duel.jsonl", ("against", "at"))
    cell = {"against": given.against, "busy": given.busy}
    directory = given.scratch / f"own-{time.time_ns()}"
    began_s = time.monotonic()
    with busy(given.busy):
        found = answer(
            *("duel", "--against", given.against, "recipes/tiny.yaml"),
            *("--minutes", str(given.minutes), "--max-regression", str(LIMIT)),
            *("--directory", str(directory)),
            key="cases",
        )
    records.add(cell, found, began_s)
    for case in found["cases"]:
        print(case["judged"]["name"], json.dumps(_gated({**found, "cases": [case]})))


if __name__ == "__main__":
    parser = arguments(__doc__, minutes=60)
    parser.add_argument("--sessions", type=int, default=10, help="of each judge (10)")
    parser.add_argument("--processes", type=int, default=10, help="of a session's run (10)")
    parser.add_argument("--duel-minutes", type=float, default=2, help="at most, of one duel (2)")
    parser.add_argument("--against", metavar="REV", help="duel this folder against a revision")
    options = parser.parse_args()
    own_duel(options) if options.against else main(options)
