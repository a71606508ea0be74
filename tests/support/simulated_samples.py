"""Simulated times whose truth is known: what the statistics are tested on.

The models are those of the measurement protocol. Everything is relative to a true level of 1 and
drawn from the generator that is passed in. ``benchmarks/statistical_power.py`` draws more of the
same.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchorch.domain.measurement import Calibration, Observations, Paired, ProcessRecord
from benchorch.stats.pairs import Pair
from benchorch.stopping.precision import Precision

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Array]


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Calls that scatter by 1 %."""
    return 1 + 0.01 * rng.standard_normal(shape)


def lognormal(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.lognormal(0, 0.1, shape)


def bimodal(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Three calls in ten take 8 % longer."""
    return normal(rng, shape) + 0.08 * (rng.random(shape) < 0.3)


def heavy(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """One call in twenty takes at least twice as long: no variance, hardly a mean."""
    return normal(rng, shape) + (rng.random(shape) < 0.05) * (rng.pareto(1.5, shape) + 1)


def quantised(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """A clock that shows five different times."""
    return np.round(normal(rng, shape) / 0.01) * 0.01


def autoregressive(rho: float, spread: float = 0.01) -> Draw:
    """Each call resembles the one before it."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        noise = rng.standard_normal(shape)
        for i in range(1, shape[1]):
            noise[:, i] = rho * noise[:, i - 1] + math.sqrt(1 - rho**2) * noise[:, i]
        return 1 + spread * noise

    return draw


INDEPENDENT: Mapping[str, Draw] = {
    "normal": normal,
    "lognormal": lognormal,
    "bimodal": bimodal,
    "heavy tail": heavy,
    "quantised": quantised,
}
CORRELATED: Mapping[str, Draw] = {
    "AR(1) 0.5": autoregressive(0.5),
    "AR(1) 0.9": autoregressive(0.9),
}


@functools.cache
def true_quantile(draw: Draw, quantile_ratio: float) -> float:
    """From four million draws; an autoregressive series is distributed like independent calls."""
    drawn = draw(np.random.default_rng(123), (40_000, 100))
    return float(np.quantile(drawn, quantile_ratio))


def process_effects(rng: np.random.Generator, shape: tuple[int, int], spread: float) -> Array:
    """What one process takes longer than another, as factors."""
    return np.exp(spread * rng.standard_normal(shape))


def call_noise_2(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return 1 + 0.02 * rng.standard_normal(shape)


def spiked(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """3 % of calls take at least 18 % longer, some of them very much."""
    spikes = (rng.random(shape) < 0.03) * 0.18 * (rng.pareto(1.5, shape) + 1)
    return call_noise_2(rng, shape) + spikes


COMPARED: Mapping[str, Draw] = {
    "normal": call_noise_2,
    "heavy tail": spiked,
    "AR(1) 0.8": autoregressive(0.8, 0.02),
}
"""The calls of the comparators' noise model."""

CALLS = 60


@dataclass(frozen=True, kw_only=True)
class Node:
    """A machine to compare on.

    Attributes:
        calls: one of `COMPARED`.
        process_spread: standard deviation between processes.
        drift: how far the machine wanders in a session, as a random walk.
    """

    calls: str = "heavy tail"
    process_spread: float = 0.01
    drift: float = 0.03


def adjacent_medians(
    node: Node, rng: np.random.Generator, sessions: int, pairs: int, log_ratio: float = 0.0
) -> tuple[Array, Array]:
    """Both sides' process medians, shape (sessions, pairs), in random order within each pair.

    Args:
        log_ratio: the truth: of the baseline's time over the candidate's.
    """
    shape = (sessions, 2 * pairs)
    step = node.drift / math.sqrt(2 * pairs)
    walk = np.exp(np.cumsum(step * rng.standard_normal(shape), axis=1))
    calls = COMPARED[node.calls](rng, (sessions * 2 * pairs, CALLS))
    own = np.median(calls, axis=1).reshape(shape)
    times = own * walk * process_effects(rng, shape, node.process_spread)
    first, second = times[:, 0::2], times[:, 1::2]
    swapped = rng.random((sessions, pairs)) < 0.5
    ours, theirs = np.where(swapped, second, first), np.where(swapped, first, second)
    return ours, theirs * math.exp(log_ratio)


def log_ratios(ours: Array, theirs: Array) -> Array:
    return np.log(theirs) - np.log(ours)


def pairs_of(ours: Sequence[float], theirs: Sequence[float]) -> list[Pair]:
    return [Pair(1e6 * a, 1e6 * b) for a, b in zip(ours, theirs, strict=True)]


def dies(rng: np.random.Generator, values: Array) -> Array:
    """The same pairs, of which one is lost in a fifth of all sessions."""
    if rng.random() < 0.2:
        return np.delete(values, rng.integers(values.size))
    return values


def stopped_at(
    rule: Precision, headline: Sequence[float], ratios: Sequence[float]
) -> tuple[int, str]:
    """After how many processes the rule is content, and why; time costs nothing here."""
    for count in range(1, len(headline) + 1):
        reason = rule.enough_processes(headline[:count], 0.0, ratios[:count])
        if reason:
            return count, reason
    return len(headline), "budget_exhausted"


def observations(times: Array, scale_ns: float = 1e6) -> Observations:
    durations = tuple(int(x) for x in times * scale_ns)
    starts = np.cumsum([0, *durations])[:-1].tolist()
    return Observations(
        durations_ns=durations, started_ns=tuple(starts), calls_per_block=1, items_per_call=1
    )


def process(times: Array, *, steady_from: int | None = 0, scale_ns: float = 1e6) -> ProcessRecord:
    """One process that saw these calls, as multiples of `scale_ns`."""
    return ProcessRecord(
        load_s=0.5,
        first_call_s=0.1,
        observations=observations(times, scale_ns),
        steady_from=steady_from,
        calibration=Calibration(pair_cost_ns=40, step_ns=1),
        peak_rss_bytes=1,
        facts={"threads": 1},
    )


def alternated(own: ProcessRecord, ours: Array, theirs: Array) -> ProcessRecord:
    """The same process, which then took turns with its baseline."""
    paired = Paired(
        baseline_id="baseline",
        design="alternated",
        ours=observations(ours),
        theirs=observations(theirs),
    )
    return replace(own, paired=paired)
