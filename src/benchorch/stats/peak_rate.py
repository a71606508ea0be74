"""Posterior of the highest rate at which a target holds, from probes at different rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchorch.stats.binomial_bound import ExceedanceCount, Target, share_bounds
from benchorch.stats.correlated_quantiles import correlation_time
from benchorch.stats.quantiles import LEVEL_RATIO
from benchorch.stats.queueing import LoadPhase, overloaded
from benchorch.units import NS_PER_MS

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

SEARCH_LEVEL_RATIO = 0.9

LOWEST_RATIO = 1e-3
HIGHEST_RATIO = 1.25
"""Rates considered, as shares of the capacity; it is itself only measured."""

GRID = 800
"""Rates on the grid; neighbours are 0.9 % apart."""

SURE = 0.9999
"""Confidence of overload at which it overrules a probe's counts."""

SLOPES = (0.02, 80.0)
SLOPE_STEPS = 20
"""How steeply the odds of a violation rise with the rate, on logarithms: unknown, so all of them.

In a queue without variance they rise with the 17th power of the rate near 0.77 of capacity and with
its first power near 0; where calls themselves are often too slow they hardly rise. Slopes below 1
are the less likely the flatter they are.
"""

SLOPE_SPREAD = 0.7
"""Standard deviation of the logarithm of a probe's own slope around the common one.

No law of odds is a power over its whole length, so what a probe says of the rate looked for fades
with its distance; on which side of it that rate lies, it says at any distance.
"""

FARTHEST_RATIO = 1.25
"""How far beyond the rates that were offered the interval may end by its own account."""

_TINY = 1e-12
_RISES = (-14.0, 6.0, 251)
"""Logarithms of rises in log odds at which a probe's likelihood is tabulated: first, last, count.
"""

_SPREADS = (-3.0, 3.0, 61)
"""The same of standard deviations of slopes, over which it is averaged; about as far apart."""

_MOST_SIGMAS = 8.0
"""So sure is a probe of its side at most: a sharper likelihood would fall between the points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Counts at one rate.

    Attributes:
        rate_per_s: offered.
        violations, queries: counted, the latter without the stretch's first tenth.
        time: how many queries are worth one independent one.
    """

    rate_per_s: float
    violations: int
    queries: int
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """Posterior of the highest rate, in queries per second.

    Attributes:
        value: as likely to be above as below it.
        low, high: hold it with the requested probability; infinite where only `low` is known.
    """

    value: float
    low: float
    high: float

    @property
    def width_ratio(self) -> float:
        """How wide the interval is, as a share of its lower end."""
        return self.high / self.low - 1.0


def probe(stretch: LoadPhase, target: Target) -> Probe:
    """Counts of a phase against a target.

    An overloaded one says that the target does not hold, whatever it saw: it would in time. A query
    without an answer is a violation.
    """
    responses = stretch.settled().until_answered_ns()
    above = int((responses > target.target_ms * NS_PER_MS).sum())
    return Probe(
        rate_per_s=stretch.load.rate_per_s,
        violations=int(responses.size) if overloaded(stretch, SURE) else above,
        queries=int(responses.size),
        time=correlation_time([responses], target.quantile_ratio),
    )


def never(stretch: LoadPhase, target: Target) -> bool:
    """Whether service alone, with nothing waiting, takes longer than the target too often.

    Without missed queries: at full speed a server may refuse what it would answer at a lower rate.
    """
    served = stretch.settled().with_answer().duration_ns
    above = int((served > target.target_ms * NS_PER_MS).sum())
    low, _ = share_bounds(ExceedanceCount(violations=above, queries=served.size))
    return low > 1.0 - target.quantile_ratio


def belief(
    probes: Sequence[Probe],
    capacity_per_s: float,
    quantile_ratio: float,
    level_ratio: float = SEARCH_LEVEL_RATIO,
) -> Belief:
    """Posterior of the highest rate, given these probes.

    Estimator: Bayes on a grid of rates and slopes. The odds of a violation are a power of the
    rate, which differs from probe to probe by `SLOPE_SPREAD`; at the highest rate they are those
    of the quantile. The likelihood of each probe is binomial, exactly so where queries are
    independent; correlated ones count for one in each correlation time. Beforehand rates up to
    `HIGHEST_RATIO` of the capacity are half equally likely, half their logarithms. How often the
    interval holds the truth, and for which queues, is in `benchmarks/results/queueing.txt`.

    Source
    ------
    Waeber, Frazier and Henderson, *Bisection search with noisy responses* (2013), for bisecting
    what is believed; here with what each probe counted instead of only its sign.
    """
    import numpy as np

    logs = np.linspace(math.log(LOWEST_RATIO), math.log(HIGHEST_RATIO), GRID)
    slopes = np.geomspace(*SLOPES, SLOPE_STEPS)
    even = 0.5 * np.exp(logs) / HIGHEST_RATIO + 0.5 / (logs[-1] - logs[0])
    weights = np.log(even)[:, None] + np.log(slopes / (1.0 + slopes))
    for each in _with_pooled_times(probes):
        distances = math.log(each.rate_per_s / capacity_per_s) - logs
        weights += _log_likelihood(each, distances, slopes, quantile_ratio)
    chances = np.exp(weights - weights.max()).sum(axis=1)
    cumulative = (chances.cumsum() - chances / 2.0) / chances.sum()
    tail = (1.0 - level_ratio) / 2.0
    found = np.exp(np.interp([tail, 0.5, 1.0 - tail], cumulative, logs)) * capacity_per_s
    low, value, high = found.tolist()
    return Belief(value=value, low=low, high=high)


def bracketed(probes: Sequence[Probe], capacity_per_s: float, quantile_ratio: float) -> Belief:
    """The same at `LEVEL_RATIO`, an end only where a rate near it was offered; at least one probe.

    Beyond the rates that were offered, and next to the highest one considered, the power law and
    the prior alone would decide. There the lower end is the lowest rate considered, the upper one
    infinite, and the value at most the highest rate offered.
    """
    found = belief(probes, capacity_per_s, quantile_ratio, LEVEL_RATIO)
    rates = [each.rate_per_s for each in probes]
    is_low = found.low * FARTHEST_RATIO >= min(rates)
    farthest_per_s = min(max(rates) * FARTHEST_RATIO, HIGHEST_RATIO * capacity_per_s / 1.05)
    is_high = found.high <= farthest_per_s
    return Belief(
        value=min(found.value, max(rates)),
        low=min(found.low, max(rates)) if is_low else LOWEST_RATIO * capacity_per_s,
        high=found.high if is_high else math.inf,
    )


def _with_pooled_times(probes: Sequence[Probe]) -> list[Probe]:
    """The probes by rate, their correlation times made to rise with it.

    Each alone, a probe that by chance had no violation would seem less correlated and weigh more
    than one that by chance had many, so that the highest rate would come out too high.
    """
    from scipy.optimize import isotonic_regression

    if not probes:
        return []
    ordered = sorted(probes, key=lambda each: (each.rate_per_s, -each.time))
    times = isotonic_regression(
        [each.time for each in ordered], weights=[each.queries for each in ordered]
    ).x
    return [replace(each, time=float(time)) for each, time in zip(ordered, times, strict=True)]


def _log_likelihood(
    counts: Probe, distances: NDArray[float64], slopes: NDArray[float64], quantile_ratio: float
) -> NDArray[float64]:
    """Log likelihood of a probe's weighted counts, without the binomial coefficient.

    Parameters
    ----------
    distances : ndarray, shape (n,)
        Logarithm of the probe's rate over each rate that may be the highest.
    slopes : ndarray, shape (m,)

    Returns
    -------
    ndarray, shape (n, m)
    """
    import numpy as np

    at_peak = math.log((1.0 - quantile_ratio) / quantile_ratio)
    rises = np.log(np.abs(distances) + _TINY)[:, None] + np.log(slopes)
    places = np.linspace(*_RISES)
    below, above = (_averaged(counts, at_peak, sign * np.exp(places)) for sign in (-1.0, 1.0))
    is_below = distances < 0
    found = np.empty_like(rises)
    found[is_below] = np.interp(rises[is_below], places, below)
    found[~is_below] = np.interp(rises[~is_below], places, above)
    return found


def _averaged(counts: Probe, at_peak: float, rises: NDArray[float64]) -> NDArray[float64]:
    """Log likelihood at log odds that far from the peak's, averaged over the probe's own slope."""
    import numpy as np
    from scipy.special import logsumexp

    spreads = np.linspace(*_SPREADS)
    weights = np.exp(-(spreads**2) / 2.0)
    log_odds = at_peak + rises[:, None] * np.exp(SLOPE_SPREAD * spreads)
    one = counts.violations * log_odds - counts.queries * np.logaddexp(0.0, log_odds)
    found = logsumexp(one * _worth(counts, at_peak), axis=1, b=weights / weights.sum())
    return np.asarray(found)


def _worth(counts: Probe, at_peak: float) -> float:
    """Weight of each query: one over the correlation time, or less beyond `_MOST_SIGMAS`."""
    late = counts.violations / counts.time + 0.5
    in_time = (counts.queries - counts.violations) / counts.time + 0.5
    sigmas = abs(math.log(late / in_time) - at_peak) / math.sqrt(1.0 / late + 1.0 / in_time)
    return min(1.0, _MOST_SIGMAS / max(sigmas, 1.0)) ** 2 / counts.time
