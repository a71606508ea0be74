"""Estimates over fresh processes: calls within one are correlated, so it is the sampling unit."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import Observations, ProcessRecord
from benchorch.stats.median_interval import median_interval
from benchorch.stats.moderated_variance import ASSUMED, UsualSpread
from benchorch.stats.quantiles import ALPHA, LEVEL_RATIO

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import ArrayLike, NDArray

_LARGEST_EXPONENT = 300.0
_MEANT = ("offered", "confirmation")
METHOD = "median over processes; order statistics"
FEW = "median over processes; t with a moderated variance"

# Standard deviation of the median of three or four normal values, in those of one.
_MEDIAN_SPREAD = {3: 0.6698, 4: 0.5456}


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
    """Median response at the rate in question, without queries of the search."""
    count = len(observations.durations_ns)
    within = range(start, count if end is None else min(end, count))
    meant = [load for load in observations.loads if load.purpose in _MEANT]
    places = [i for load in meant for i in range(load.first, load.end) if i in within]
    missed = {i for places in observations.missed.values() for i in places}
    responses = [
        observations.started_ns[i] + observations.durations_ns[i] - observations.scheduled_ns[i]
        for i in places or within
        if i not in missed
    ]
    return float(statistics.median(responses)) if responses else math.nan


def primary_ns(process: ProcessRecord) -> float:
    """A process's primary metric: its steady median per query; NaN where it observed nothing."""
    return median_query_ns(process.observations, process.steady_from)


def half_width_ratio(values: Sequence[float], alpha: float) -> float | None:
    """How far an interval of the median reaches from its middle, as a share of it.

    Estimator: ``sqrt(high / low) - 1``, half the width of `median_interval` on the scale of
    logarithms.

    Parameters
    ----------
    values : sequence of float, length n
        One number a process, any unit.
    alpha : float
        What the two tails hold together.

    Returns
    -------
    float or None
        None where n is too small for `alpha` (below 8 at 1.15 %), and where a value is not a
        positive number.
    """
    if not values or not all(0 < value < math.inf for value in values):
        return None
    ends = median_interval(values, alpha)
    return None if ends is None else math.sqrt(ends[1] / ends[0]) - 1.0


def over_processes(
    values: ArrayLike, *, unit: str, usual: UsualSpread = ASSUMED
) -> Estimate | None:
    """The median over processes, with an interval of that median.

    Estimator: the sample's median. From five processes on its interval is `median_interval`'s,
    which assumes no distribution. Of three or four it is the median, plus and minus Student's t
    on logarithms with a moderated variance, and never narrower than what was seen. All are at
    `LEVEL_RATIO`, whatever chose the number of processes. Scaling all values scales the
    estimate; their order does not matter.

    Parameters
    ----------
    values : array_like, shape (n,), float
        One number a process, in `unit`.
    usual : UsualSpread
        What the other trials of the machine say of the spread; used for n = 3 and 4 only.

    Returns
    -------
    Estimate or None
        None for n = 0 and where a value is NaN or infinite; without an interval for n = 1 and 2,
        and for n = 3 and 4 where a value is not positive.

    Source
    ------
    Kalibera and Jones, *Rigorous benchmarking in reasonable time*, on levels of repetition; the
    sources of `median_interval` and `usual_spread`.
    """
    import numpy as np

    found = np.asarray(values, dtype=np.float64).tolist()
    if not found or not all(map(math.isfinite, found)):
        return None
    low, high, method = _interval(found, usual)
    return Estimate(
        value=statistics.median(found),
        low=low,
        high=high,
        level_ratio=LEVEL_RATIO,
        n=len(found),
        unit=unit,
        method=method,
        seen=(min(found), max(found)),
    )


def _interval(
    values: Sequence[float], usual: UsualSpread
) -> tuple[float | None, float | None, str]:
    ends = median_interval(values)
    if ends is not None:
        return *ends, METHOD
    if len(values) in _MEDIAN_SPREAD and min(values) > 0:
        logs = [math.log(value) for value in values]
        reach = _MEDIAN_SPREAD[len(values)] * usual.reach(logs, ALPHA)
        centre = statistics.median(logs)
        low, high = min(*logs, centre - reach), max(*logs, centre + reach)
        return bounded_exp(low), bounded_exp(high), FEW
    return None, None, "median over processes; too few for an interval"


def bounded_exp(exponent: float) -> float:
    """The exponential, kept finite: two observations far apart have an interval beyond numbers."""
    return math.exp(max(-_LARGEST_EXPONENT, min(_LARGEST_EXPONENT, exponent)))
