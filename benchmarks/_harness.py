"""What the overhead benchmarks share: interleaved rounds of whole processes, and ratios.

Every comparison runs its two sides in turn, in random order within a round, in one run on one
machine; what is printed is the median ratio over the rounds with its smallest and largest.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# No user's process compiles benchorch anew each time, as those of a container that sets this do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def run_process(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> tuple[float, float]:
    """Wall seconds and CPU seconds (with children) of one process; it must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(
        command,
        check=True,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    )
    wall_s = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s, cpu_s


def interleave(
    sides: Mapping[str, Callable[[], tuple[float, float]]], rounds: int
) -> dict[str, list[tuple[float, float]]]:
    """Each side once a round, in random order; one uncounted round first."""
    generator = random.Random(0)
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        names = list(sides)
        generator.shuffle(names)
        for name in names:
            sample = sides[name]()
            if number:
                seen[name].append(sample)
    return seen


def ratio_row(
    name: str, seen: Mapping[str, Sequence[tuple[float, float]]], side: str, floor: str, goal: str
) -> str:
    """A Markdown row: median ratio over the rounds (min to max), by wall and by CPU time."""
    cells = []
    for index in (0, 1):
        ratios = [a[index] / b[index] for a, b in zip(seen[side], seen[floor], strict=True)]
        middle = statistics.median(ratios)
        cells.append(f"{middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    floor_s = statistics.median(sample[0] for sample in seen[floor])
    return f"| {name} | {cells[0]} | {cells[1]} | {floor_s:.3f} s | {goal} |"


def table(rows: Sequence[str]) -> str:
    """Rows under the heads that `ratio_row` fills."""
    head = (
        "| what | ratio by wall (min to max) | ratio by CPU | floor | goal |\n|---|---|---|---|---|"
    )
    return "\n".join([head, *rows])


def python(*arguments: str) -> list[str]:
    """A command for this interpreter."""
    return [sys.executable, *arguments]
