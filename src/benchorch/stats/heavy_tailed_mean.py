"""Mean of heavy-tailed times, where the tail index allows an interval."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy import float64
from numpy.typing import ArrayLike, NDArray

from benchorch.domain.estimate import Estimate
from benchorch.stats.mean_of_processes import mean

LEAST_INDEX = 2.0
"""A tail index below which there is no variance, and so no interval for a mean."""

TAIL_RATIO = 0.1
LEAST_OBSERVATIONS = 100


def tail_index(values: ArrayLike) -> float | None:
    """How fast the upper tail thins out: the probability beyond x falls as ``x ** -index``.

    Estimator: Hill's, on the largest tenth of what exceeds the median, less one standard error,
    so that a tail is called light only where the sample shows it.

    Parameters
    ----------
    values : array_like, shape (n,), float

    Returns
    -------
    float or None
        Infinite where hardly anything exceeds the median. None below `LEAST_OBSERVATIONS`, where
        nothing is known of a tail.

    Source
    ------
    Hill, *A simple general approach to inference about the tail of a distribution*, 1975.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size < LEAST_OBSERVATIONS:
        return None
    excess = np.sort(array - np.median(array))
    above = int((excess > 0).sum())
    count = min(int(TAIL_RATIO * array.size), above - 1)
    if count < 1:
        return math.inf
    distances = float(np.log(excess[-count:] / excess[-count - 1]).mean())
    return (1.0 - 1.0 / math.sqrt(count)) / distances if distances > 0 else math.inf


def is_heavy(samples: Sequence[NDArray[float64]]) -> bool:
    """Whether all observations together show a tail without variance; False for too few to show."""
    index = tail_index(np.concatenate(samples))
    return index is not None and index < LEAST_INDEX


def mean_over_processes(samples: Sequence[NDArray[float64]], *, unit: str) -> Estimate | None:
    """The mean over processes of each one's mean, or None where the tail does not allow one.

    Estimator: Student t on one mean a process.

    Parameters
    ----------
    samples : sequence of ndarray, shapes (n,), (m,), ..., float64, in `unit`
        Each process's observations.

    Returns
    -------
    Estimate or None
        None where the tail index of all observations is below `LEAST_INDEX` or not known;
        without an interval for a single process.
    """
    index = tail_index(np.concatenate(samples)) if samples else None
    if index is None or index < LEAST_INDEX:
        return None
    means = [float(sample.mean()) for sample in samples]
    found = mean(means, of="processes' means", unit=unit)
    if found is None or found.low is None:
        return found
    return replace(found, low=max(found.low, 0.0))  # times are not negative
