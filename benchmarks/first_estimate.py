"""How soon is there a first estimate, how soon an answer, and how much of it is measuring?

An eager MLP whose reference is in the store, then a sweep whose builds are, timed from the moment
the command is started.

    python benchmarks/first_estimate.py [ROUNDS] [MODEL] [CONVERSIONS]

The useful fraction is the time of calls that count, alone and in turns with the baseline, over the
time that the stages held the machine; goal 50 % for ten conversions of BERT.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _harness import python

FIRST_S, ANSWER_S, USEFUL_RATIO = 3.0, 15.0, 0.5
POLL_S = 0.01
ENDS = 0, 1  # 1: a conversion was disqualified, and measured all the same


def run(place: Path, name: str, *words: str) -> tuple[float | None, float]:
    """Seconds until a first process is on disk, as a terminal shows it, and until the end.

    Args:
        place: of the store, and of the run's directory, which has this name.
    """
    environment = {**os.environ, "BENCHORCH_CACHE_DIR": str(place / "store")}
    environment["XDG_STATE_HOME"] = str(place / "state")
    command = python("-m", "benchorch", *words, "recorder=none", f"hydra.run.dir={name}")
    first: float | None = None
    started = time.perf_counter()
    with subprocess.Popen(
        command, cwd=place, env=environment, stdout=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            if first is None and _has_measured(place / name):
                first = time.perf_counter() - started
            time.sleep(POLL_S)
        ended = time.perf_counter() - started
        if process.returncode not in ENDS:
            raise SystemExit(f"benchorch {' '.join(words)} ended with {process.returncode}")
    return first, ended


def _has_measured(directory: Path) -> bool:
    """Whether a process of a trial that goes on is on disk, or a result."""
    return (directory / "results.jsonl").exists() or any(directory.glob("trials/*/rounds.jsonl"))


def useful_s(directory: Path) -> tuple[float, float]:
    """Seconds of calls that count, and seconds that the stages took, over all trials of a run."""
    calls_s = held_s = 0.0
    for line in (directory / "results.jsonl").read_text().splitlines():
        trial = json.loads(line)
        held_s += sum(trial["stages_s"].values())
        series = directory / "trials" / trial["trial_id"] / "observations.jsonl"
        for number, text in enumerate(series.read_text().splitlines()):
            process = trial["processes"][number]
            if not process["disturbance"]:
                calls_s += _counted_s(json.loads(text), process["steady_from"] or 0)
    return calls_s, held_s


def _counted_s(series: Mapping[str, Any], steady_from: int) -> float:
    total = sum(series["observations"]["durations_ns"][steady_from:])
    paired = series["paired"]
    for side in ("ours", "theirs") if paired else ():
        if paired[side]:
            total += sum(paired[side]["durations_ns"][paired[f"{side}_from"] :])
    return total / 1e9


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    model = sys.argv[2] if len(sys.argv) > 2 else "bert_tiny"
    names = sys.argv[3] if len(sys.argv) > 3 else "eager,onnxruntime,torchscript,export"
    with tempfile.TemporaryDirectory() as at:
        place = Path(at)
        mlp = ("model=mlp", "conversion=eager")
        run(place, "reference", *mlp, "stopping=quick")
        seen = [run(place, f"mlp{number}", *mlp) for number in range(rounds)]
        firsts = [first for first, _ in seen if first is not None]
        ends = [end for _, end in seen]
        print(f"first estimate   {_spread(firsts)} s   goal {FIRST_S:g} s")
        print(f"answer           {_spread(ends)} s   goal {ANSWER_S:g} s")
        sweep = (f"model={model}", f"conversion=[{names}]")
        run(place, "cold", *sweep, "stopping=quick")
        run(place, "warm", *sweep)
        calls_s, held_s = useful_s(place / "warm")
        ratio = f"{calls_s / held_s:.1%} of {model} through {names}"
        print(f"useful fraction  {ratio}   goal {USEFUL_RATIO:.0%}")


def _spread(seconds: list[float]) -> str:
    middle = statistics.median(seconds)
    return f"{middle:.1f} ({min(seconds):.1f} to {max(seconds):.1f})"


if __name__ == "__main__":
    main()
