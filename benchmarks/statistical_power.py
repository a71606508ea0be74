"""How often the statistics are right, at full power: §2.2 to §2.4 of the measurement protocol.

The suite runs reduced versions of the same experiments. This one takes some minutes of CPU and
prints a table; what misses its band is marked and makes the exit code 1. Bands are the protocol's,
widened by two standard errors of what is counted here (by three where dozens of cells share one).

    python benchmarks/statistical_power.py | tee benchmarks/results/statistical_power.txt
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import numpy as np

from support.simulated_samples import COMPARED, CORRELATED, INDEPENDENT, Node, heavy
from support.statistics_experiments import (
    FLOORS,
    SETTLING,
    compared,
    detector_cpu_s,
    false_winners,
    gates,
    headline_covers,
    headline_covers_drift,
    headline_width,
    interrupted,
    mean_components,
    mean_refused,
    naive_peeking,
    order_statistics_cover,
    p99_covers,
    pareto,
    settle,
    single_processes,
    single_width,
    standard_error,
    stopped_trials,
)

CELLS = {**INDEPENDENT, **CORRELATED}
FINE = [name for name in INDEPENDENT if name != "quantised"]
SESSIONS = 2500


@dataclass(frozen=True)
class Row:
    """One requirement: what was asked, what was found, over how many."""

    name: str
    cell: str
    band: str
    found: str
    kept: bool

    def __str__(self) -> str:
        mark = "" if self.kept else "  <-- MISSED"
        return f"{self.name:3} {self.cell:60} {self.band:>10} {self.found:>9}{mark}"


def at_least(name: str, cell: str, share: float, band: float, n: int, errors: float = 2) -> Row:
    kept = share >= band - errors * standard_error(band, n)
    return Row(name, cell, f">= {band:.1%}", f"{share:.2%}", kept)


def at_most(name: str, cell: str, share: float, band: float, n: int, errors: float = 2) -> Row:
    kept = share <= band + errors * standard_error(band, n)
    return Row(name, cell, f"<= {band:.1%}", f"{share:.2%}", kept)


def warm_up() -> Iterator[Row]:
    n = 1000
    for kind in SETTLING:
        found = settle(kind, n)
        error = float(np.quantile(found.errors, 0.95))
        yield Row(
            "W1", f"{kind}: error, 95th percentile", "<= 0.5 %", f"{error:.2%}", error <= 0.005
        )
        yield at_most("W1", f"{kind}: no steady state", found.lost / n, 0.02, n)
    for kind in ("drift", "square wave"):
        yield at_least("W2", f"{kind}: refused", settle(kind, n).lost / n, 0.99, n)
    flat = settle("flat", n, seed=1)
    yield at_least("W3", "flat: kept whole", 1 - (flat.cut + flat.lost) / n, 0.95, n)
    took = detector_cpu_s(400)
    yield Row(
        "W4", "CPU of one search, 400 blocks", "<= 20 ms", f"{took * 1e3:.1f} ms", took <= 0.02
    )


def intervals() -> Iterator[Row]:
    n = 5000
    for (kind, draw), size in itertools.product(INDEPENDENT.items(), (30, 100, 500)):
        share = order_statistics_cover(draw, size, n)
        yield at_least("I1", f"{kind}, {size} calls", share, 0.94, n)
    for (kind, draw), size, processes in itertools.product(
        CELLS.items(), (30, 100, 500), (5, 10, 20)
    ):
        share = headline_covers(draw, size, processes, n if size < 500 else n // 2)
        cell = f"{kind}, {processes} processes of {size} calls"
        yield at_least("I2", cell, share, 0.935, n)
    for processes in (5, 10, 20):
        share = headline_covers_drift(4, processes, n)
        yield at_least(
            "I2", f"3 % drift, 4 trials in turns, {processes} processes", share, 0.935, n
        )
    for kind in FINE:
        for size in (368, 1000):
            share = order_statistics_cover(INDEPENDENT[kind], size, n, 0.99)
            yield at_least("I3", f"p99, {kind}, {size} calls pooled", share, 0.94, n)
        for processes in (5, 20):
            share = p99_covers(INDEPENDENT[kind], processes, n // 2)
            cell = f"p99, {kind}, {processes} processes of 500 calls"
            yield at_least("I3", cell, share, 0.94, n // 2)
    for tail, spread in itertools.product(
        ("normal", "t3"), (0.003, 0.006, 0.008, 0.012, 0.016, 0.02, 0.04)
    ):
        found = stopped_trials(spread, n, tail)
        cell = f"spread {spread:.1%} ({tail}), {found.converged:.0%} converged"
        yield at_least("I4", cell, found.covered, 0.935, n)
        yield Row("I4", f"{cell}, too wide", "0", str(found.too_wide), not found.too_wide)
    for rho, size in itertools.product((0.3, 0.5, 0.9), (30, 100, 500)):
        share = single_processes(rho, size, n).as_independent
        yield Row("I5", f"AR(1) {rho}, {size} calls: taken for independent", "<= 0.1 %",
                  f"{share:.2%}", share <= 0.001)  # fmt: skip
    for rho, size in ((0.3, 1000), (0.5, 1000), (0.9, 8000)):
        alone = single_processes(rho, size, 1000)
        cell = f"AR(1) {rho}, {size} calls: medians of stretches"
        yield at_least("I5", cell, alone.covered, 0.92, 1000)
    for kind, size in itertools.product((pareto, heavy), (100, 500, 3000)):
        share = mean_refused(kind, size, 1000)
        yield at_least("I6", f"{kind.__name__}, {size} calls: mean refused", share, 0.95, 1000)
    for processes in (5, 10, 20):
        width = headline_width(processes, 20_000)
        cell = f"headline of {processes} processes, half-width over an oracle's"
        band = {5: 1.6, 10: 1.35, 20: 1.3}[processes]  # a median takes 1.25 where a mean takes 1
        yield Row("I7", cell, f"<= {band:.2f}", f"{width:.3f}", width <= band * 1.003)
    for size in (30, 100, 500):
        width = single_width(size, 20_000)
        cell = f"one process of {size} calls, half-width over an oracle's"
        yield Row("I7", cell, "<= 1.30", f"{width:.3f}", width <= 1.3)
    truths = {"call": 0.02, "process": 0.01, "node": 0.03}
    for (level, spread), variance in zip(truths.items(), mean_components(2000), strict=True):
        ratio = variance / spread**2
        yield Row("I8", f"variance of {level}, found over true", "1 +- 0.15", f"{ratio:.3f}",
                  abs(ratio - 1) <= 0.15)  # fmt: skip


def comparisons() -> Iterator[Row]:
    n = SESSIONS
    for calls, spread, drift in itertools.product(COMPARED, (0.0, 0.01, 0.03), (0.0, 0.03, 0.1)):
        node = Node(calls=calls, process_spread=spread, drift=drift)
        found = compared(node, n, deaths=True)
        cell = f"{calls}, processes {spread:.0%}, drift {drift:.0%}: called different"
        yield at_most("A1", cell, found.different, 0.05, n)
    for pairs in (3, 5, 8, 10, 20, 40):
        found = compared(Node(), n, pairs=pairs)
        yield at_most("A1", f"reference, {pairs} pairs: called different", found.different, 0.05, n)
        yield at_most(
            "A2", f"reference, {pairs} pairs: called materially so", found.material, 0.005, n
        )
        one = compared(Node(), n, pairs=pairs, log_ratio=math.log(1.01))
        yield at_most("A2", f"1 % apart, {pairs} pairs: called equivalent", one.equivalent, 0.05, n)
    one = compared(Node(), n, log_ratio=math.log(1.01))
    yield at_most("A2", "1 % apart, looks: called equivalent", one.equivalent, 0.05, n)
    ten = compared(Node(), n, pairs=10, log_ratio=math.log(1.02))
    yield at_least("A3", "2 % apart, 10 pairs: called faster", ten.faster, 0.9, n)
    thirty = compared(Node(), n, pairs=30, log_ratio=math.log(1.01))
    yield at_least("A3", "1 % apart, 30 pairs: called faster", thirty.faster, 0.9, n)
    for spread, band in ((0.0, 0.99), (0.01, 0.99), (0.03, 0.55)):
        two = compared(Node(process_spread=spread), n, log_ratio=math.log(1.02))
        cell = f"2 % apart, processes {spread:.0%}, looks: called faster"
        yield at_least("A3", cell, two.faster, band, n)
        if spread < 0.03:
            yield Row("A3", "... after so many pairs, in the middle", "<= 12", f"{two.pairs:.0f}",
                      two.pairs <= 12)  # fmt: skip
    for looks in ((), (5, 8, 12, 18, 27, 40)):
        share = false_winners(1000, 40, 8, looks)
        cell = f"40 identical candidates, {'with looks' if looks else 'no looks'}: any winner"
        yield at_most("A5", cell, share, 0.05, 1000)
    for log_ratio, pairs in itertools.product((0.0, 0.02), (8, 10, 20, 40, None)):
        share = compared(Node(), n, pairs=pairs, log_ratio=log_ratio).covered
        cell = f"{log_ratio:.0%} apart, {pairs or 'looks:'} pairs: the interval holds"
        yield at_least("A6", cell, share, 0.94, n)
    yield at_most("A7", "a budget that ends anywhere: called different",
                  interrupted(Node(), n), 0.05, n)  # fmt: skip
    naive = naive_peeking(Node(), n)
    yield Row("A7", "p < 5 % at any pair, which is not done here", "-", f"{naive:.1%}", True)


def sessions() -> Iterator[Row]:
    n = 400
    quiet = FLOORS["lognormal 0.5 %"]
    for (kind, floors), size in itertools.product(FLOORS.items(), (3, 5, 8)):
        known = (("beside its like", floors), ("beside quiet trials", quiet))
        for beside, others in (("alone", None), *(known if size == 3 else ())):
            found = [gates(floors, size, more, n, others=others) for more in (0, 0.02, 0.05, 0.1)]
            cell = f"floors: {kind}, {size} a side, {beside}"
            alarms, passes = ([one[word] / n for one in found] for word in ("regression", "pass"))
            yield at_most("G1", f"{cell}: alarm at 0 %", alarms[0], 0.05, n)
            yield at_most("G1", f"{cell}: alarm at 2 %", alarms[1], 0.05, n)
            yield at_most("G2", f"{cell}: pass at 5 %", passes[2], 0.05, n)
            shown = f"{passes[0]:.0%}, {alarms[2]:.0%}, {alarms[3]:.0%}"
            yield Row("G3", f"{cell}: 0 % passes; 5, 10 % found", "-", shown, True)
    for apart in (0.0015, 0.005, 0.01):
        found = gates(quiet, 10, 0, 5 * n, apart=apart)
        cell = f"floors: 10 a side, sessions {apart:.2%} apart: alarm at 0 %"
        yield at_most("G4", cell, found["regression"] / (5 * n), 0.05, 5 * n)


def main() -> int:
    began = time.process_time()
    missed = 0
    print(
        "What share is right where the truth is known; W: series, I: intervals, A: comparisons, "
        "G: gates.\n"
    )
    parts: tuple[Callable[[], Iterator[Row]], ...] = (warm_up, intervals, comparisons, sessions)
    for row in itertools.chain.from_iterable(part() for part in parts):
        print(row, flush=True)
        missed += not row.kept
    minutes = (time.process_time() - began) / 60
    print(f"\n{missed} bands missed; {minutes:.1f} minutes of CPU")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
