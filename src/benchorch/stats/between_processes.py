"""Estimates over fresh processes: calls within one are correlated, so it is the sampling unit."""

from __future__ import annotations

import math
import statistics
from functools import cache
from typing import TYPE_CHECKING

from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import Observations, ProcessRecord
from benchorch.stats.quantiles import ALPHA, LEVEL_RATIO

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import ArrayLike, NDArray

_LARGEST_EXPONENT = 300.0
_MEANT = ("offered", "confirmation")
METHOD = "median over processes; t on logarithms"


def steady_queries_ns(observations: Observations, start: int | None) -> NDArray[float64]:
    """Time per query of each block from `start` on, or of every block where that is None.

    A query's time is its block's, shared evenly where a block answers several; where queries
    arrive by a schedule it is the response time, counted from when each was due.

    Returns
    -------
    ndarray, shape (n,), float64, in nanoseconds
        Empty where nothing was observed.
    """
    import numpy as np

    first = start or 0
    blocks = np.asarray(observations.durations_ns[first:], dtype=np.float64)
    if observations.scheduled_ns:
        started = np.asarray(observations.started_ns[first:], dtype=np.float64)
        return started + blocks - np.asarray(observations.scheduled_ns[first:], dtype=np.float64)
    return blocks / observations.queries_per_block


def median_query_ns(observations: Observations, start: int | None, end: int | None = None) -> float:
    """The median of `steady_queries_ns` up to block `end`; NaN where there is no block.

    It imports nothing heavy: the parent of measuring processes, which decides when there are
    enough, shares their machine.
    """
    if observations.scheduled_ns:
        return _median_response_ns(observations, start or 0, end)
    blocks = observations.durations_ns[start or 0 : end]
    return statistics.median(blocks) / observations.queries_per_block if blocks else math.nan


def _median_response_ns(observations: Observations, start: int, end: int | None) -> float:
    """Of the queries at the rate in question, without those that only looked for it."""
    count = len(observations.durations_ns)
    within = range(start, count if end is None else min(end, count))
    meant = [load for load in observations.loads if load.purpose in _MEANT]
    places = [i for load in meant for i in range(load.first, load.end) if i in within]
    responses = [
        observations.started_ns[i] + observations.durations_ns[i] - observations.scheduled_ns[i]
        for i in places or within
    ]
    return float(statistics.median(responses)) if responses else math.nan


def primary_ns(process: ProcessRecord) -> float:
    """A process's primary metric: its steady median per query; NaN where it observed nothing."""
    return median_query_ns(process.observations, process.steady_from)


def half_width_ratio(values: ArrayLike, alpha: float) -> float | None:
    """How far the interval of `over_processes` reaches from its middle, as a share of it.

    Estimator: ``sqrt(high / low) - 1``, half the width on the scale of logarithms.

    Parameters
    ----------
    values : array_like, shape (n,), float
        One number a process, any unit.
    alpha : float
        What the two tails hold together.

    Returns
    -------
    float or None
        None for n = 0 and 1, and where a value is not a positive number; at n = 2 a number so
        wide that it rarely satisfies anyone.
    """
    found = over_processes(values, unit="", alpha=alpha)
    if found is None or found.low is None or found.high is None:
        return None
    return math.sqrt(found.high / found.low) - 1.0


def over_processes(values: ArrayLike, *, unit: str, alpha: float = ALPHA) -> Estimate | None:
    """The median over processes, with an interval that holds for their spread.

    Estimator: Student t on the logarithms of one number a process, exponentiated; widened, if
    need be, to contain the median. Scaling all values scales the estimate; their order does not
    matter.

    Parameters
    ----------
    values : array_like, shape (n,), float
        One number a process, in `unit`.
    alpha : float
        Error rate of the interval: below `ALPHA` where the number of processes was chosen from
        interim analyses, so that after all of them the interval still holds at `LEVEL_RATIO`.

    Returns
    -------
    Estimate or None
        None for n = 0 and where a value is NaN or infinite; without an interval for n = 1 and
        where a value is not positive.

    Source
    ------
    Kalibera and Jones, *Rigorous benchmarking in reasonable time*, on levels of repetition.
    """
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or not np.isfinite(array).all():
        return None
    median = statistics.median(array.tolist())
    low, high = _interval(array, median, alpha)
    return Estimate(
        value=median,
        low=low,
        high=high,
        level_ratio=LEVEL_RATIO,
        n=int(array.size),
        unit=unit,
        method=METHOD if alpha == ALPHA else f"{METHOD}, {alpha:.2%} at each look",
    )


def _interval(
    array: NDArray[float64], median: float, alpha: float
) -> tuple[float | None, float | None]:
    import numpy as np

    if array.size < 2 or not (array > 0).all():
        return None, None
    logs = np.log(array)
    spread = float(logs.std(ddof=1)) / math.sqrt(logs.size)
    centre, reach = float(logs.mean()), student_t(alpha, logs.size - 1) * spread
    return min(bounded_exp(centre - reach), median), max(bounded_exp(centre + reach), median)


def bounded_exp(exponent: float) -> float:
    """The exponential, kept finite: two observations far apart have an interval beyond numbers."""
    return math.exp(max(-_LARGEST_EXPONENT, min(_LARGEST_EXPONENT, exponent)))


@cache
def student_t(alpha: float, degrees_of_freedom: float) -> float:
    """The two-sided critical value of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, 1.0 - alpha / 2.0))
