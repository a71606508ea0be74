"""How long does a person wait for the answer, what does it cost, and where does the time go?

    python benchmarks/time_to_answer.py [mlp] [bert] [hello] [process] [plan]

Without a name: all but `bert`. `mlp` and `bert` run one command twice with a store of their own,
first with nothing cached, and print a row of the goals for each moment that a person notices, then
where wall and CPU time went; `bert` also the share of wall time inside calls that the estimates
use. `hello` benchmarks a script of ten lines through four conversions. `process` is
`trial_overhead.py`: a trial's process over the bare one. `plan` plans 10,000 trials. Wall times
need a machine with nothing else to do; CPU seconds bear company better.

Goals against a peer have scripts of their own: `cli_start.py` (a minimal Hydra application),
`ray_dispatch.py` (raw actor calls) and `peers.py` (other tools).
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trial_overhead
from _harness import ROOT, python
from first_estimate import USEFUL_RATIO, useful_s

MLP = ("model=mlp", "conversion=[eager,onnxruntime]")
BERT = (str(ROOT / "recipes" / "bert.yaml"),)
PLANNED = (
    "model=mlp,bert_tiny,bert,distilbert,gpt2",
    "conversion=eager,inductor,aot_inductor,onnxruntime,torchscript",
    "workload.batch_size=1,2,4,8,16,32,64,128",
    f"workload.seed={','.join(map(str, range(50)))}",
)
HELLO = """
import torch

class SmallModel(torch.nn.Module):
    def __init__(self, input_size, output_size):
        super().__init__()
        self.fc = torch.nn.Linear(input_size, output_size)

    def forward(self, x):
        return self.fc(x)

torch.manual_seed(0)
print(SmallModel(10, 5)(torch.rand(10)))
"""
FOUR = "conversion=[eager,inductor,aot_inductor,onnxruntime]"
FIRST, DECIDED = "first figures:", "decided after"  # what a run prints at these moments


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """One command: seconds until it first had figures and last decided, None without; its cost."""

    first_s: float | None
    decided_s: float | None
    undecided: int
    end_s: float
    cpu_s: float
    directory: Path


def run(place: Path, name: str, words: Sequence[str]) -> Waited:
    """Run benchorch in a pipe, with the store of that place."""
    environment = {**os.environ, "BENCHORCH_CACHE_DIR": str(place / "store")}
    environment["XDG_STATE_HOME"] = str(place / "state")
    command = python("-u", "-m", "benchorch", *words, "recorder=none", f"hydra.run.dir={name}")
    before, started = _cpu_s(), time.perf_counter()
    seen: dict[str, float] = {}
    undecided = 0
    with subprocess.Popen(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            moment = next((each for each in (FIRST, DECIDED) if each in line), None)
            if moment:
                now_s = time.perf_counter() - started
                seen[moment] = seen.get(FIRST, now_s) if moment == FIRST else now_s
            undecided += f"un{DECIDED}" in line
        if process.wait() not in (0, 1):  # 1: a conversion was disqualified or could not run
            raise SystemExit(f"benchorch {' '.join(words)} ended with {process.returncode}")
    return Waited(
        first_s=seen.get(FIRST),
        decided_s=seen.get(DECIDED),
        undecided=undecided,
        end_s=time.perf_counter() - started,
        cpu_s=_cpu_s() - before,
        directory=place / name,
    )


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def answered(name: str, words: Sequence[str], goals: Sequence[float | None]) -> Iterator[str]:
    """Rows of one command, nothing cached and then cached.

    Args:
        goals: seconds to the first table and the decision, not cached; to the decision, cached.
    """
    with tempfile.TemporaryDirectory() as at:
        cold, warm = (run(Path(at), each, words) for each in ("cold", "warm"))
        first, decided, again = goals
        yield _row(f"{name}: first ranked table, nothing cached", cold.first_s, first)
        yield _row(f"{name}: decided, nothing cached", cold.decided_s, decided, cold.undecided)
        yield _row(f"{name}: decided, cached", warm.decided_s, again, warm.undecided)
        yield _row(f"{name}: whole command, nothing cached", cold.end_s, None)
        yield _row(f"{name}: whole command, cached", warm.end_s, None)
        for state, one in (("nothing cached", cold), ("cached", warm)):
            yield f"| {name}: CPU, {state} | {one.cpu_s:.0f} s | |"
        yield from _beyond_calls(name, warm.directory)
        share, goal = useful_s(warm.directory)[0] / warm.end_s, f"{USEFUL_RATIO:.0%}"
        yield f"| {name}: inside calls that count, cached | {share:.0%} | {goal} |"
        for state, one in (("nothing cached", cold), ("cached", warm)):
            yield from _pieces(f"{name}, {state}", one)


def _row(what: str, seconds: float | None, goal_s: float | None, undecided: int = 0) -> str:
    found = "not reached" if seconds is None else f"{seconds:.1f} s"
    open_ones = f", {undecided} undecided" if undecided else ""
    return f"| {what} | {found}{open_ones} | {'' if goal_s is None else f'{goal_s:g} s'} |"


def _beyond_calls(name: str, directory: Path) -> Iterator[str]:
    """What a measuring process takes besides the calls that it times, by conversion."""
    beyond_s = defaultdict(list)
    for trial in _trials(directory):
        for process, text in _processes(directory, trial):
            timed_s = sum(json.loads(text)["observations"]["durations_ns"]) / 1e9
            beyond_s[trial["labels"]["conversion"]].append(process["elapsed_s"] - timed_s)
    for conversion, seconds in beyond_s.items():
        middle = f"{statistics.median(seconds):.2f} s, n = {len(seconds)}"
        yield f"| {name}: {conversion}'s process beyond its timed calls | {middle} | 0.6 s |"


def _pieces(name: str, waited: Waited) -> Iterator[str]:
    """Wall time by what it went into, over all trials; the rest is the command's own.

    A back-to-back pair's process of the baseline is in the baseline's own trial.
    """
    spent_s: dict[str, float] = defaultdict(float)
    for trial in _trials(waited.directory):
        for stage, seconds in trial["stages_s"].items():
            spent_s[stage] += seconds
        for process, text in _processes(waited.directory, trial):
            for piece, seconds in _of_process(process, json.loads(text)):
                spent_s[piece] += seconds
                spent_s["measure"] -= seconds
    spent_s["in measuring processes: start, imports, checks"] = spent_s.pop("measure", 0.0)
    spent_s["planning, tables, waiting"] = waited.end_s - sum(spent_s.values())
    for piece, seconds in spent_s.items():
        yield f"| {name}: {piece} | {seconds:.1f} s, {seconds / waited.end_s:.0%} | |"


def _of_process(process: dict[str, Any], series: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Seconds of one measuring process by what is known of it."""
    conditions = process["conditions"]
    canaries = (conditions["canary_before_ns"] or 0) + (conditions["canary_after_ns"] or 0)
    yield "loading", process["load_s"]
    yield "first call", process["first_call_s"]
    yield "calls alone", sum(series["observations"]["durations_ns"]) / 1e9
    yield "reference workload, one pass each", canaries / 1e9
    paired = series["paired"] or {}
    for side in ("ours", "theirs", "ours_alone", "theirs_alone"):
        if paired.get("design") == "alternated" and paired.get(side):
            yield "calls interleaved with the baseline", sum(paired[side]["durations_ns"]) / 1e9


def _processes(directory: Path, trial: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Each process of a trial with the line of its raw series; none where it has no result."""
    series = directory / "trials" / trial["trial_id"] / "observations.jsonl"
    lines = series.read_text().splitlines() if series.exists() else []
    return zip(trial["processes"], lines, strict=False)


def _trials(directory: Path) -> list[dict[str, Any]]:
    """The finished results of a run."""
    lines = map(json.loads, (directory / "results.jsonl").read_text().splitlines())
    return [line for line in lines if not line.get("unfinished")]


def greeted() -> Iterator[str]:
    """The cost of a script of ten lines through four conversions, nothing cached."""
    with tempfile.TemporaryDirectory() as at:
        Path(at, "hello_world.py").write_text(HELLO)
        found = run(Path(at), "run", ("script", "hello_world.py", FOUR, "--trust", at))
    yield f"| hello_world.py, four conversions: CPU | {found.cpu_s:.0f} s | 45 s |"
    yield _row("hello_world.py: whole command", found.end_s, None)


def single_process() -> Iterator[str]:
    """A trial's process over the bare one."""
    for name, ratio, _ in trial_overhead.ratios(rounds=5):
        yield f"| {name}: a trial's process over the bare one | {ratio} | 1.3 |"


def planned() -> Iterator[str]:
    """CPU seconds and peak memory of a plan of 10,000 trials."""
    command = python("-m", "benchorch", "plan", "--json", "-m", *PLANNED)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        count = len(json.loads(process.stdout.read())["trials"])
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0  # waited for here, for its own peak of memory
    yield f"| plan of {count} trials, CPU | {used.ru_utime + used.ru_stime:.1f} s | 8 s |"
    yield f"| plan of {count} trials, memory | {used.ru_maxrss / 1024:.0f} MiB | 200 MiB |"


SCENARIOS: dict[str, Callable[[], Iterator[str]]] = {
    "mlp": lambda: answered("mlp", MLP, (None, 20, 20)),
    "bert": lambda: answered("bert", BERT, (90, 240, 90)),
    "hello": greeted,
    "process": single_process,
    "plan": planned,
}


def main() -> None:
    chosen = sys.argv[1:] or [name for name in SCENARIOS if name != "bert"]
    unknown = sorted(set(chosen) - SCENARIOS.keys())
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    print("| what | measured | goal |\n|---|---|---|")
    for name in chosen:
        for row in SCENARIOS[name]():
            print(row, flush=True)


if __name__ == "__main__":
    main()
