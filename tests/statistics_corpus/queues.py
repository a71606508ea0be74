"""Queues with one server near capacity, whose stationary response is known.

Poisson arrivals, service of mean 1. The response is W + S, W being a geometric sum of residual
service times (Pollaczek and Khinchine); its law is computed on a grid by Fourier transforms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import lognorm

from statistics_corpus.adapter import Adapter, Array, Run
from statistics_corpus.scoring import Cell, Play, Tally

MILLISECOND_NS = 1.0e6
STEP = 0.01
POINTS = 2**17
SIGMA_CV1 = math.sqrt(math.log(2.0))
SIGMA_CV2 = math.sqrt(math.log(5.0))


@dataclass(frozen=True)
class Service:
    """A law of service times of mean 1."""

    name: str
    draw: Callable[[np.random.Generator, int], Array]
    cdf: Callable[[Array], NDArray[np.floating[Any]]]
    cv2: float


def lognormal(sigma: float) -> Service:
    """Lognormal service of mean 1."""
    mu = -sigma * sigma / 2.0
    return Service(
        f"lognormal cv {math.sqrt(math.exp(sigma * sigma) - 1.0):.1f}",
        lambda rng, n: np.exp(mu + sigma * rng.standard_normal(n)),
        lambda x: np.asarray(lognorm.cdf(x, sigma, scale=math.exp(mu)), dtype=np.float64),
        math.exp(sigma * sigma) - 1.0,
    )


CONSTANT = Service("constant", lambda _, n: np.ones(n), lambda x: (x >= 1.0) * 1.0, 0.0)
EXPONENTIAL = Service(
    "exponential", lambda rng, n: rng.exponential(1.0, n), lambda x: -np.expm1(-x), 1.0
)
UNIFORM = Service(
    "uniform 0.5 to 1.5",
    lambda rng, n: 0.5 + rng.random(n),
    lambda x: np.asarray(np.clip(x - 0.5, 0.0, 1.0), dtype=np.float64),
    1.0 / 12.0,
)
LOGNORMAL_1 = lognormal(SIGMA_CV1)
LOGNORMAL_2 = lognormal(SIGMA_CV2)


@cache
def response_truth(service: Service, load: float, q: float) -> float:
    """A quantile of the stationary response."""
    edges: Array = (np.arange(POINTS + 1, dtype=np.float64) - 0.5) * STEP
    edges[0] = 0.0
    below = service.cdf(edges)
    serve: Array = np.diff(np.asarray(below, dtype=np.float64))
    grid: Array = np.arange(POINTS * 4 + 1, dtype=np.float64) * (STEP / 4.0)
    tail = 1.0 - service.cdf(grid)
    area = np.concatenate([[0.0], np.cumsum((tail[1:] + tail[:-1]) * STEP / 8.0)])
    residual = np.diff(np.interp(edges, grid, area))
    residual /= residual.sum()
    size = 2 * POINTS
    transform = np.fft.rfft(residual, size)
    waiting = (1.0 - load) / (1.0 - load * transform)
    law = np.fft.irfft(waiting * np.fft.rfft(serve, size), size)
    return float(np.searchsorted(np.cumsum(law), q) * STEP)


def correlation_time(service: Service, load: float) -> float:
    """How many queries the queue remembers (heavy traffic: that of reflected Brownian motion)."""
    return (1.0 + service.cv2) * load / (1.0 - load) ** 2


def served(rng: np.random.Generator, service: Service, load: float, queries: int) -> Run:
    """One run that starts empty, first come first served, in nanoseconds (mean service 1 ms)."""
    due = np.cumsum(rng.exponential(1.0 / load, queries))
    times = service.draw(rng, queries)
    done = np.cumsum(times)
    start_gap = due - np.concatenate([[0.0], done[:-1]])
    completion = done + np.maximum.accumulate(start_gap)
    return Run(due * MILLISECOND_NS, (completion - due) * MILLISECOND_NS)


def response(service: Service, load: float, runs: int, queries: int, q: float) -> Play:
    """How often what is said is true: the interval holds, or "at least x" is at least true."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        truth = response_truth(service, load, q) * MILLISECOND_NS
        hits = said = 0
        for _ in range(reps):
            answer = tool.response_quantile(
                [served(rng, service, load, queries) for _ in range(runs)], q
            )
            if answer is None or math.isnan(answer.low):
                continue
            said += 1
            hits += answer.low <= truth <= answer.high
        return Tally(hits, said, reps)

    return play


def two_ended(service: Service, load: float, runs: int, queries: int, q: float) -> Play:
    """How often an interval with an upper end is given."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = 0
        for _ in range(reps):
            answer = tool.response_quantile(
                [served(rng, service, load, queries) for _ in range(runs)], q
            )
            hits += answer is not None and math.isfinite(answer.low) and math.isfinite(answer.high)
        return Tally(hits, reps, reps)

    return play


def truth_cells(points: list[tuple[Service, float, int, int, float]], reps: int) -> list[Cell]:
    """Whether what is said of the response is true."""
    return [
        Cell(
            name=f"{service.name}, load {load}, {runs} x {queries} queries, p{100 * q:g}",
            promise="10 response near capacity",
            law=f"M/G/1 {service.name}",
            processes=runs,
            repetitions=max(40, reps * 3000 // max(queries, 3000)),
            asked='interval, or "at least x", true >= 0.935',
            sense=">=",
            bound=0.935,
            function="response_quantile",
            play=response(service, load, runs, queries, q),
        )
        for service, load, runs, queries, q in points
    ]


def given_cells(
    points: list[tuple[Service, float, int, int, float, bool]], reps: int
) -> list[Cell]:
    """Whether an interval comes where the runs are long enough, and none where they are not."""
    return [
        Cell(
            name=f"{service.name}, load {load}, {runs} x {queries} queries, p{100 * q:g}: "
            f"{queries / correlation_time(service, load):.0f} correlation times each",
            promise="10 response near capacity",
            law=f"M/G/1 {service.name}",
            processes=runs,
            repetitions=max(40, reps * 3000 // max(queries, 3000)),
            asked="an interval with two ends "
            + ("is given >= 0.90" if long_enough else "is given <= 0.05"),
            sense=">=" if long_enough else "<=",
            bound=0.90 if long_enough else 0.05,
            function="response_quantile",
            play=two_ended(service, load, runs, queries, q),
            own_number=True,
        )
        for service, load, runs, queries, q, long_enough in points
    ]
