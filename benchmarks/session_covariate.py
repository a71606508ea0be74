"""Two sessions without a history: would the reference workload as a covariate add to `compare`?

Simulated sessions of 8 and of 20 processes, of the same code and of code that is 5 % slower. The
machine has phases within a session and differs between sessions; the model's time follows either by
a slope of its own, the reference workload both by 1. Rules: `compare` as it is, whose interval
holds the whole change of the reference workload and none of it; an analysis of covariance with the
slope within the sessions; `compare` of medians adjusted by that slope within each session.

    python benchmarks/session_covariate.py | tee benchmarks/results/session_covariate.txt
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import numpy as np
from scipy.stats import t

from statistics_corpus.adapter import Array, Session
from support.statistics_lab import Estimators

REPETITIONS = 300
SLOWER = 0.05
LEAST_FREEDOM = 8


@dataclass(frozen=True)
class Machine:
    """Standard deviations of logarithms, and slopes."""

    process: float = 0.01
    reference: float = 0.002
    phases: float = 0.0
    follows_phases: float = 1.0
    sessions: float = 0.0
    follows_sessions: float = 1.0

    def draw(self, rng: np.random.Generator, n: int, change: float) -> tuple[Array, Array]:
        """Logarithms of n processes' medians, and of the reference workloads beside them."""
        phase, session = self.phases * rng.standard_normal(n), self.sessions * rng.standard_normal()
        medians = self.process * rng.standard_normal(n)
        medians += self.follows_phases * phase + self.follows_sessions * session
        return medians + change, self.reference * rng.standard_normal(n) + phase + session


SCATTERED = {"process": 0.03, "phases": 0.02, "reference": 0.01}
MACHINES = {
    "quiet": Machine(),
    "sessions 3 % apart": Machine(sessions=0.03),
    "sessions 3 % apart, followed by half": Machine(sessions=0.03, follows_sessions=0.5),
    "phases of 2 % among 3 %": Machine(**SCATTERED),
    "the same, sessions 3 % apart": Machine(**SCATTERED, sessions=0.03),
    "phases of 3 % among 1 %, sessions 3 % apart": Machine(phases=0.03, sessions=0.03),
    "the same, sessions not followed": Machine(phases=0.03, sessions=0.03, follows_sessions=0.0),
}

Sides = tuple[tuple[Array, Array], tuple[Array, Array]]
Interval = tuple[float, float]


def as_it_is(sides: Sides) -> Interval:
    """The interval of `compare` for the logarithm of new over old."""
    old, new = (
        Session(*(np.exp(one) * 1e6 for one in (medians, medians, references)))
        for medians, references in sides
    )
    found = Estimators().compare(old, new, [])
    if math.isnan(found.low):
        return -math.inf, math.inf
    return -math.log(found.high), -math.log(found.low)


def covariance(sides: Sides) -> Interval:
    """Student's t of an analysis of covariance, with one slope within both sessions."""
    slope, variance, squares = _slope(sides)
    (old, before), (new, after) = sides
    change = after.mean() - before.mean()
    centre = new.mean() - old.mean() - slope * change
    error = math.sqrt(variance * (2 / len(old) + change**2 / squares))
    reach = t.ppf(0.975, 2 * len(old) - 3) * error
    return centre - reach, centre + reach


def adjusted(sides: Sides) -> Interval:
    """`compare` of medians at their session's usual speed, where the slope is not 0 by chance."""
    slope, variance, squares = _slope(sides)
    freedom = 2 * len(sides[0][0]) - 3
    if freedom < LEAST_FREEDOM or abs(slope) < t.ppf(0.975, freedom) * math.sqrt(
        variance / squares
    ):
        slope = 0.0
    old, new = ((y - slope * (x - np.median(x)), x) for y, x in sides)
    return as_it_is((old, new))


def _slope(sides: Sides) -> tuple[float, float, float]:
    """The slope within both sessions, the variance that remains, and the covariate's squares."""
    x = np.concatenate([references - references.mean() for _, references in sides])
    y = np.concatenate([medians - medians.mean() for medians, _ in sides])
    squares = float(x @ x)
    slope = float(x @ y) / squares
    return slope, float(((y - slope * x) ** 2).sum()) / (len(x) - 3), squares


RULES = {"as it is": as_it_is, "covariance": covariance, "adjusted": adjusted}


def main() -> None:
    print("| machine | processes | rule | false | 5 % found | interval holds | its width |")
    print("|---|---|---|---|---|---|---|")
    for (name, machine), n in ((one, n) for one in MACHINES.items() for n in (8, 20)):
        rng = np.random.default_rng(7)
        drawn = [
            (change, (machine.draw(rng, n, 0.0), machine.draw(rng, n, change)))
            for _ in range(REPETITIONS)
            for change in (0.0, math.log1p(SLOWER))
        ]
        for rule, interval in RULES.items():
            found = [(change, *interval(sides)) for change, sides in drawn]
            false = sum(low > 0 or high < 0 for change, low, high in found if not change)
            power = sum(low > 0 for change, low, _ in found if change)
            held = sum(low <= change <= high for change, low, high in found)
            width = float(np.median([high - low for _, low, high in found]))
            shares = (false / REPETITIONS, power / REPETITIONS, held / len(found), width)
            cells = " | ".join(f"{share:.1%}" for share in shares)
            print(f"| {name} | {n} | {rule} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
