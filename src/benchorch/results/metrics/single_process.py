"""First estimate from one process, until there are others."""

from __future__ import annotations

import math
import statistics

import numpy as np
from numpy import float64
from numpy.typing import ArrayLike, NDArray

from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import ProcessRecord
from benchorch.stats.autocorrelation import independent, integrated_time
from benchorch.stats.between_processes import steady_queries_ns
from benchorch.stats.quantiles import ALPHA, LEVEL_RATIO, quantile
from benchorch.stats.student import student_t
from benchorch.units import NS_PER_MS

LEAST_BLOCKS = 10
MOST_BLOCKS = 50
TIMES_PER_BLOCK = 10
"""Integrated autocorrelation times that make the medians of two blocks independent."""


def provisional(process: ProcessRecord) -> Estimate | None:
    """The latency that one process shows, in milliseconds; None where it shows none.

    Its interval holds for this process and ignores how processes differ.
    """
    observed = process.observations
    if observed.at_once or not observed.durations_ns:
        return None
    queries = steady_queries_ns(observed, process.steady_from)
    return median_of_one(queries / NS_PER_MS, unit="ms")


def median_of_one(values: ArrayLike, *, unit: str) -> Estimate | None:
    """The median of one series, with an interval that holds however its values are correlated.

    Estimator: order statistics where the values may be counted as independent; else Student's t
    on the medians of at least `LEAST_BLOCKS` stretches, each at least `TIMES_PER_BLOCK`
    integrated autocorrelation times long. Scaling all values scales the estimate.

    Parameters
    ----------
    values : array_like, shape (n,), float
        In order of time, in `unit`.

    Returns
    -------
    Estimate or None
        None for n = 0 and where a value is NaN or infinite; without an interval where the series
        is too short for one.

    Source
    ------
    Batch means: Conway, *Some tactical problems in digital simulation*, 1963; with medians in
    place of means.
    """
    series = np.asarray(values, dtype=np.float64)
    if series.size == 0 or not np.isfinite(series).all():
        return None
    counted = quantile(series, 0.5, unit=unit) if independent([series]) else None
    return counted or _of_stretches(series, unit)


def _of_stretches(series: NDArray[float64], unit: str) -> Estimate:
    """Student's t on medians of stretches; without an interval where there are too few."""
    length = math.ceil(TIMES_PER_BLOCK * integrated_time(series))
    count = min(series.size // length, MOST_BLOCKS)
    median = float(np.median(series))
    low = high = None
    if count >= LEAST_BLOCKS:
        medians = [float(np.median(part)) for part in np.array_split(series, count)]
        spread = statistics.stdev(medians) / math.sqrt(count)
        reach = student_t(ALPHA, count - 1) * spread
        low, high = median - reach, median + reach
    return Estimate(
        value=median,
        low=low,
        high=high,
        level_ratio=LEVEL_RATIO,
        n=max(count, 1),
        unit=unit,
        method="median of one process; t on medians of stretches",
    )
