"""Quantiles of observations that depend on those before them, such as times in a queue."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from benchorch.domain.estimate import Estimate
from benchorch.stats.autocorrelation import independent_n, integrated_time
from benchorch.stats.quantiles import LEVEL_RATIO, minimum_n, order_bounds, sample_quantile
from benchorch.stats.student import student_t

LEAST_BLOCKS = 10
BLOCK_TIMES = 10.0
"""Length of a block in correlation times; shorter series have no interval."""

WIDER = 10.0


def correlated_quantile(
    runs: Sequence[ArrayLike], quantile_ratio: float, *, unit: str
) -> Estimate | None:
    """A quantile of observations that depend on those before them, such as times in a queue.

    Estimator: the quantile of all observations. Its interval is the order-statistic one for as many
    observations as these are worth: `effective_n` at their `correlation_time`.

    Parameters
    ----------
    runs : sequence of array_like, each of shape (n_i,), float
        In `unit`, each in order of time; different runs are independent.

    Returns
    -------
    Estimate or None
        None where n is below `minimum_n`; without an interval where there are fewer than
        `LEAST_BLOCKS` blocks, or where what they are worth is below `minimum_n`.

    Source
    ------
    Woodruff, *Confidence intervals for medians and other position measures* (1952), for inverting
    the interval of a share; Korn and Graubard (1998) for its effective n.
    """
    arrays = [np.asarray(run, dtype=np.float64) for run in runs]
    values = np.concatenate(arrays)
    if values.size < minimum_n(quantile_ratio):
        return None
    value = sample_quantile(values, quantile_ratio)
    time = correlation_time(arrays, quantile_ratio)
    worth = math.floor(effective_n(values.size, time))
    bounds = order_bounds(worth, quantile_ratio)
    if bounds is None:
        low, high, n, known = None, None, values.size, "too few for an interval"
    else:
        ordered, each = np.sort(values), values.size / worth
        low = float(ordered[math.floor(bounds[0] * each)])
        high = float(ordered[min(math.ceil((bounds[1] + 1) * each), values.size) - 1])
        n, known = worth, "order-statistic interval at their effective number"
    return Estimate(
        value=value,
        low=low,
        high=high,
        level_ratio=LEVEL_RATIO,
        n=n,
        unit=unit,
        method=f"quantile of correlated queries; {known}",
    )


def correlation_time(
    runs: Sequence[ArrayLike], quantile_ratio: float, *, cautious: bool = True
) -> float:
    """Observations per independent one for a quantile; at least 1.

    Estimator: the integrated autocorrelation time of lying above the quantile, or above one that
    is `WIDER` times as far from the end if that is longer: the quantile itself is passed so rarely
    that a short series has not yet seen how long it stays passed.

    Parameters
    ----------
    runs : sequence of array_like, each of shape (n_i,), float
        Each in order of time. For n = 0, 1, 2 the result is 1.
    cautious : bool
        Whether observations that pass for independent have the upper limit of their time, too,
        which is 1.4 for 600 of them, and not 1.
    """
    time_of = integrated_time if cautious else _time
    arrays = [np.asarray(run, dtype=np.float64) for run in runs]
    values = np.concatenate([np.empty(0), *arrays])
    if not values.size:
        return 1.0
    wider = max(0.5, 1.0 - WIDER * (1.0 - quantile_ratio))
    levels = [sample_quantile(values, ratio) for ratio in sorted({quantile_ratio, wider})]
    times = [
        sum(time_of(array > level) * array.size for array in arrays) / values.size
        for level in levels
    ]
    return max(times)


def _time(series: ArrayLike) -> float:
    return np.size(series) / independent_n(series)


def effective_n(n: int, time: float) -> float:
    """How many independent observations n correlated ones are worth.

    Estimator: n over their correlation time, less what Student's t takes for knowing that time
    from n over `BLOCK_TIMES` times it blocks only.

    Returns
    -------
    float
        0 where there are fewer than `LEAST_BLOCKS` blocks: too few to tell.
    """
    from scipy.special import ndtri

    blocks = math.floor(n / (BLOCK_TIMES * time))
    if blocks < LEAST_BLOCKS:
        return 0.0
    alpha = 1.0 - LEVEL_RATIO
    known = float(-ndtri(alpha / 2.0)) / student_t(alpha, blocks - 1)
    return n / time * known**2
