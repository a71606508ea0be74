"""Laws of process effects and of calls, each with the truth of what is estimated.

A process effect multiplies every call of its process. Each law draws `repetitions x processes`
effects in time order, so that a law may depend on time (phases, drift).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], Array]

TRUTH_DRAWS = 1_000_000
SLACK = 0.001
"""Every value v with |F(v) - 1/2| <= SLACK counts as the median (a gap has more than one)."""

REFERENCE_NS = 5.0e7
CALL_NS = 5.0e6


def normal(sd: float) -> Draw:
    """Log effects that are normal."""
    return lambda rng, reps, n: np.exp(sd * rng.standard_normal((reps, n)))


def modes(levels: tuple[float, ...], shares: tuple[float, ...], jitter: float = 0.01) -> Draw:
    """A few levels, each with a little scatter."""

    def draw(rng: np.random.Generator, reps: int, n: int) -> Array:
        level = rng.choice(np.asarray(levels), size=(reps, n), p=np.asarray(shares))
        return level * np.exp(jitter * rng.standard_normal((reps, n)))

    return draw


def exponential(scale: float) -> Draw:
    """One plus an exponential delay."""
    return lambda rng, reps, n: 1.0 + rng.exponential(scale, (reps, n))


def pareto(scale: float, tail: float) -> Draw:
    """One plus a delay with a heavy tail."""
    return lambda rng, reps, n: 1.0 + scale * rng.pareto(tail, (reps, n))


def student(sd: float, freedom: float) -> Draw:
    """Log effects with Student's tails."""
    return lambda rng, reps, n: np.exp(sd * rng.standard_t(freedom, (reps, n)))


def skewed_log(shape: float, sd: float) -> Draw:
    """Log effects of a centred gamma law: skewed to the slow side."""

    def draw(rng: np.random.Generator, reps: int, n: int) -> Array:
        gamma = rng.gamma(shape, 1.0, (reps, n))
        effects: Array = np.exp(sd * (gamma - shape) / np.sqrt(shape))
        return effects

    return draw


def uniform(width: float) -> Draw:
    """Log effects that are uniform."""
    return lambda rng, reps, n: np.exp(width * (rng.random((reps, n)) - 0.5))


def drifting(total: float, sd: float) -> Draw:
    """A machine that slows down by `total` from the first process to the last."""

    def draw(rng: np.random.Generator, reps: int, n: int) -> Array:
        at = (np.arange(n) + 0.5) / n - 0.5
        return np.exp(total * at + sd * rng.standard_normal((reps, n)))

    return draw


def phase_states(
    rng: np.random.Generator, reps: int, n: int, dwell: float, share: float
) -> NDArray[np.bool_]:
    """A two-state chain that starts in equilibrium: true where the machine is slow."""
    leave = 1.0 / dwell
    enter = leave * share / (1.0 - share)
    uniforms = rng.random((reps, n))
    slow = np.empty((reps, n), dtype=bool)
    slow[:, 0] = uniforms[:, 0] < share
    for i in range(1, n):
        slow[:, i] = np.where(slow[:, i - 1], uniforms[:, i] >= leave, uniforms[:, i] < enter)
    return slow


def phases(dwell: float, share: float, slower: float, jitter: float) -> Draw:
    """A machine with slow phases that last `dwell` processes on average."""

    def draw(rng: np.random.Generator, reps: int, n: int) -> Array:
        slow = phase_states(rng, reps, n, dwell, share)
        return np.where(slow, 1.0 + slower, 1.0) * np.exp(jitter * rng.standard_normal((reps, n)))

    return draw


@dataclass(frozen=True)
class ProcessLaw:
    """How processes differ."""

    name: str
    draw: Draw
    phase: tuple[float, float, float, float] | None = None
    """Dwell, share, slow-down and scatter where the reference workload sees the phases."""

    heavy: bool = False
    """Whether a t interval of the mean of logs is known to be far from the median."""


@dataclass(frozen=True)
class Truth:
    """What the headline estimates: a set of values for the median, one for the mean of logs."""

    low: float
    high: float
    geometric: float


@cache
def truth_of(law: ProcessLaw, noise: float = 0.0) -> Truth:
    """The truth of a law from a million draws, `noise` being the error of a process's median."""
    rng = np.random.default_rng(9_001)
    effects = draw_alone(law, rng, TRUTH_DRAWS)
    effects *= np.exp(noise * rng.standard_normal(TRUTH_DRAWS))
    low, high = np.quantile(effects, [0.5 - SLACK, 0.5 + SLACK])
    if law.phase is not None:
        quiet = np.exp(law.phase[3] * rng.standard_normal(TRUTH_DRAWS))
        low = min(low, float(np.quantile(quiet, 0.5 - SLACK)))
    return Truth(float(low), float(high), float(np.exp(np.log(effects).mean())))


def draw_alone(law: ProcessLaw, rng: np.random.Generator, count: int) -> Array:
    """Effects as they fall over all of time."""
    if law.name.startswith("drift between"):
        return law.draw(rng, count // 1000, 1000).ravel()
    return law.draw(rng, count, 1).ravel()


PROCESS_LAWS = {
    law.name: law
    for law in (
        ProcessLaw("lognormal 1 %", normal(0.01)),
        ProcessLaw("lognormal 3 %", normal(0.03)),
        ProcessLaw("lognormal 9 %", normal(0.09)),
        ProcessLaw("two modes 70/30 +10 %", modes((1.0, 1.1), (0.7, 0.3)), heavy=True),
        ProcessLaw("two modes 80/20 +30 %", modes((1.0, 1.3), (0.8, 0.2)), heavy=True),
        ProcessLaw("two modes 50/50 +10 %", modes((1.0, 1.1), (0.5, 0.5)), heavy=True),
        ProcessLaw("three modes", modes((1.0, 1.06, 1.15), (0.5, 0.3, 0.2)), heavy=True),
        ProcessLaw("1 + exponential 20 %", exponential(0.2), heavy=True),
        ProcessLaw("1 + 5 % Pareto(1.5)", pareto(0.05, 1.5), heavy=True),
        ProcessLaw("Student t(3) 2 %", student(0.02, 3.0)),
        ProcessLaw("phases, dwell 3", phases(3.0, 0.3, 0.15, 0.01), phase=(3.0, 0.3, 0.15, 0.01)),
        ProcessLaw(
            "phases, dwell 10", phases(10.0, 0.3, 0.15, 0.01), phase=(10.0, 0.3, 0.15, 0.01)
        ),
        ProcessLaw("drift between processes 5 %", drifting(0.05, 0.01)),
    )
}
"""The order effect is a law of pairs (`tables.py`); the drift within a process one of calls."""

HELD_PROCESS_LAWS = {
    law.name: law
    for law in (
        ProcessLaw("lognormal 5 %", normal(0.05)),
        ProcessLaw("two modes 60/40 +20 %", modes((1.0, 1.2), (0.6, 0.4)), heavy=True),
        ProcessLaw("two modes 85/15 +60 %", modes((1.0, 1.6), (0.85, 0.15)), heavy=True),
        ProcessLaw("two modes 30/70 +8 %", modes((1.0, 1.08), (0.3, 0.7)), heavy=True),
        ProcessLaw("gamma(0.5) 10 %", skewed_log(0.5, 0.10), heavy=True),
        ProcessLaw("uniform 8 %", uniform(0.08)),
        ProcessLaw("Student t(2) 1 %", student(0.01, 2.0)),
        ProcessLaw("phases, dwell 6", phases(6.0, 0.25, 0.20, 0.01), phase=(6.0, 0.25, 0.20, 0.01)),
        ProcessLaw("drift between processes 8 %", drifting(0.08, 0.01)),
    )
}


# Calls ---------------------------------------------------------------------------------------

CallDraw = Callable[[np.random.Generator, int, int], Array]
"""Rows of calls around 1: `generator, rows, calls -> rows x calls`."""


def calls_lognormal(sd: float) -> CallDraw:
    """Independent calls."""
    return lambda rng, rows, calls: np.exp(sd * rng.standard_normal((rows, calls)))


def calls_ar(rho: float, sd: float) -> CallDraw:
    """Calls that remember the one before; stationary from the first."""

    def draw(rng: np.random.Generator, rows: int, calls: int) -> Array:
        shocks = rng.standard_normal((rows, calls))
        shocks[:, 1:] *= np.sqrt(1.0 - rho * rho)
        series: Array = np.exp(sd * lfilter([1.0], [1.0, -rho], shocks, axis=1))
        return series

    return draw


def calls_two_valued(share: float, slower: float, noise: float) -> CallDraw:
    """Each call by itself takes the fast or the slow path."""

    def draw(rng: np.random.Generator, rows: int, calls: int) -> Array:
        slow = rng.random((rows, calls)) < share
        return np.where(slow, 1.0 + slower, 1.0) * np.exp(
            noise * rng.standard_normal((rows, calls))
        )

    return draw


def calls_bursts(burst: float, share: float, slower: float, noise: float) -> CallDraw:
    """Slow calls come in bursts of `burst` on average."""

    def draw(rng: np.random.Generator, rows: int, calls: int) -> Array:
        slow = phase_states(rng, rows, calls, burst, share)
        return np.where(slow, 1.0 + slower, 1.0) * np.exp(
            noise * rng.standard_normal((rows, calls))
        )

    return draw


def calls_spikes(share: float, tail: float, scale: float, noise: float) -> CallDraw:
    """A few calls are delayed by a heavy tail: with `tail` below 2 no variance exists."""

    def draw(rng: np.random.Generator, rows: int, calls: int) -> Array:
        base = np.exp(noise * rng.standard_normal((rows, calls)))
        spike = rng.random((rows, calls)) < share
        return base + np.where(spike, scale * (1.0 + rng.pareto(tail, (rows, calls))), 0.0)

    return draw


def calls_periodic(period: float, amplitude: float, noise: float) -> CallDraw:
    """Calls that swing with a fixed period and a random phase."""

    def draw(rng: np.random.Generator, rows: int, calls: int) -> Array:
        start = rng.random((rows, 1)) * 2.0 * np.pi
        swing = amplitude * np.sin(2.0 * np.pi * np.arange(calls) / period + start)
        return np.exp(swing + noise * rng.standard_normal((rows, calls)))

    return draw


@dataclass(frozen=True)
class CallLaw:
    """How the calls of one process differ."""

    name: str
    draw: CallDraw
    has_mean: bool = True
    correlated: bool = False
    mean: float | None = None
    """The mean where a million draws would not find it (heavy tails)."""


CALL_LAWS = {
    law.name: law
    for law in (
        CallLaw("lognormal 3 %", calls_lognormal(0.03)),
        CallLaw("lognormal 10 %", calls_lognormal(0.10)),
        CallLaw("lognormal 30 %", calls_lognormal(0.30)),
        CallLaw("AR(1) 0.5", calls_ar(0.5, 0.03), correlated=True),
        CallLaw("AR(1) 0.9", calls_ar(0.9, 0.03), correlated=True),
        CallLaw("two-valued 30 % +8 %", calls_two_valued(0.3, 0.08, 0.01)),
        CallLaw("bursts of 50, 20 % +30 %", calls_bursts(50, 0.2, 0.3, 0.02), correlated=True),
        CallLaw(
            "Pareto(1.5) spikes on 5 %",
            calls_spikes(0.05, 1.5, 0.2, 0.03),
            has_mean=False,
            mean=math.exp(0.03**2 / 2) + 0.05 * 0.2 * 3.0,
        ),
        CallLaw("periodic 40, 3 %", calls_periodic(40, 0.03, 0.01), correlated=True),
    )
}

HELD_CALL_LAWS = {
    law.name: law
    for law in (
        CallLaw("lognormal 20 %", calls_lognormal(0.20)),
        CallLaw("AR(1) 0.7", calls_ar(0.7, 0.05), correlated=True),
        CallLaw("two-valued 50 % +30 %", calls_two_valued(0.5, 0.3, 0.01)),
        CallLaw("bursts of 20, 30 % +15 %", calls_bursts(20, 0.3, 0.15, 0.02), correlated=True),
        CallLaw(
            "Pareto(1.2) spikes on 3 %",
            calls_spikes(0.03, 1.2, 0.3, 0.03),
            has_mean=False,
            mean=math.exp(0.03**2 / 2) + 0.03 * 0.3 * 6.0,
        ),
        CallLaw("periodic 25, 5 %", calls_periodic(25, 0.05, 0.01), correlated=True),
    )
}


@cache
def call_sample(law: CallLaw) -> Array:
    """A million calls of one law, sorted: 2000 processes of 500."""
    rng = np.random.default_rng(9_002)
    return np.sort(law.draw(rng, TRUTH_DRAWS // 500, 500).ravel())


@cache
def median_truth(process: ProcessLaw, law: CallLaw, calls: int) -> Truth:
    """The headline's truth from calls: of the medians of finite series, and of endless ones."""
    rng = np.random.default_rng(9_003)
    count = 5_000
    medians = np.median(law.draw(rng, count, calls), axis=1)
    effects = draw_alone(process, rng, TRUTH_DRAWS)
    finite = effects * rng.choice(medians, TRUTH_DRAWS)
    centre = float(np.quantile(call_sample(law), 0.5))
    ends = np.quantile(finite, [0.5 - SLACK, 0.5 + SLACK])
    endless = np.quantile(effects, [0.5 - SLACK, 0.5 + SLACK]) * centre
    return Truth(
        float(min(ends[0], endless[0])),
        float(max(ends[1], endless[1])),
        float(np.exp(np.log(finite).mean())),
    )


@cache
def quantile_truth(process: ProcessLaw, law: CallLaw, q: float) -> tuple[float, float]:
    """A percentile of all calls of all processes, and the median process's own."""
    rng = np.random.default_rng(9_004)
    effects = draw_alone(process, rng, TRUTH_DRAWS)
    sample = call_sample(law)
    parts = [effects * rng.choice(sample, TRUTH_DRAWS) for _ in range(2)]
    pooled = float(np.quantile(np.concatenate(parts), q))
    own = float(np.quantile(sample, q) * np.median(effects))
    return pooled, own


@cache
def mean_truth(process: ProcessLaw, law: CallLaw) -> float:
    """The mean call of all processes (only where it exists)."""
    rng = np.random.default_rng(9_005)
    mean = float(call_sample(law).mean()) if law.mean is None else law.mean
    return float(draw_alone(process, rng, TRUTH_DRAWS).mean()) * mean


# Series for the steady-state detector ---------------------------------------------------------


def trend(total: float, law: CallDraw) -> CallDraw:
    """A drift within the process: the last call is slower than the first by `total`."""

    def draw(rng: np.random.Generator, rows: int, calls: int) -> Array:
        ramp = 1.0 + total * np.arange(calls) / (calls - 1)
        return law(rng, rows, calls) * ramp

    return draw


def warm_up(first: float, share: float, higher: float, law: CallDraw) -> CallDraw:
    """A slow first call, then a higher level for a share of the calls, then flat."""

    def draw(rng: np.random.Generator, rows: int, calls: int) -> Array:
        levels = np.ones(calls)
        levels[: int(share * calls)] = 1.0 + higher
        levels[0] = first
        return law(rng, rows, calls) * levels

    return draw
