"""Autocorrelation of successive observations, and how many independent ones they amount to."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy import float64
from numpy.typing import ArrayLike, NDArray

LARGEST = 0.1
"""An autocorrelation above which observations are not independent."""

EXCLUDED = 0.3
"""An autocorrelation that the sample must rule out, by `_SIGMAS` standard errors."""

_SIGMAS = 4.0
_WINDOW = 5.0


def lag_one(series: Sequence[ArrayLike]) -> float:
    """The autocorrelation at lag 1 of ranks, over one or several stretches of observations.

    Ranks are taken over all stretches together: where one stretch lies above another, its
    neighbours resemble each other, too. Ranks, because what is asked is whether quantiles may be
    counted off, and because a few outliers would hide the correlation of all the others.

    Parameters
    ----------
    series : sequence of array_like, shapes (n,), (m,), ..., float
        Each in order of time; neighbours are looked for inside each only.

    Returns
    -------
    float
        0 where all values are the same and where no stretch has two.

    Source
    ------
    Wald and Wolfowitz, *An exact test for randomness in the non-parametric case based on serial
    correlation*, 1943.
    """
    stretches = _centred_ranks(series)
    # Sums rather than inner products, which start threads for a microsecond's work.
    total = sum(float((ranks * ranks).sum()) for ranks in stretches)
    neighbours = sum(float((ranks[:-1] * ranks[1:]).sum()) for ranks in stretches)
    return neighbours / total if total > 0 else 0.0


def independent(series: Sequence[ArrayLike]) -> bool:
    """Whether these may be counted as independent.

    Their autocorrelation must lie below `LARGEST`, and the sample must be large enough to rule
    out `EXCLUDED`, which takes some 200 observations: fewer look independent whatever they are.
    """
    n = sum(np.size(stretch) for stretch in series)
    if n < 2:
        return False
    correlation = lag_one(series)
    return correlation < LARGEST and correlation + _SIGMAS / math.sqrt(n) < EXCLUDED


def independent_n(series: ArrayLike) -> float:
    """Effective sample size: the number of independent observations with the same information."""
    n = np.size(series)
    return float(n) if independent([series]) else n / integrated_time(series)


def integrated_time(series: ArrayLike) -> float:
    """Integrated autocorrelation time: observations per independent one; at least 1.

    Estimator: ``1 + 2 * sum of autocorrelations`` of ranks, up to the first lag that is five
    times the sum so far, plus two of its standard errors: too short a time would be a promise.

    Parameters
    ----------
    series : array_like, shape (n,), float
        In order of time. For n < 2, and where all are the same, the result is 1.

    Source
    ------
    Sokal, *Monte Carlo methods in statistical mechanics*, 1996: the self-consistent window, and
    the standard error.
    """
    (ranks,) = _centred_ranks([series])
    n = ranks.size
    if not ranks.any():
        return 1.0
    power = np.abs(np.fft.rfft(ranks, 2 * n)) ** 2
    sums = np.fft.irfft(power, 2 * n)[:n]
    times = 2.0 * np.cumsum(sums / sums[0]) - 1.0
    enough = np.arange(n) >= _WINDOW * times
    window = int(np.argmax(enough)) if enough.any() else n - 1
    time = max(1.0, float(times[window]))
    return time * (1.0 + 2.0 * math.sqrt(2.0 * (2.0 * _WINDOW * time + 1.0) / n))


def _centred_ranks(series: Sequence[ArrayLike]) -> list[NDArray[float64]]:
    """Each stretch's ranks among all values, ties sharing theirs, less the mean rank."""
    stretches = [np.asarray(stretch, dtype=np.float64) for stretch in series]
    values = np.concatenate([np.zeros(0), *stretches])
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[places] - (values.size + 1) / 2.0
    return np.split(ranks, np.cumsum([stretch.size for stretch in stretches])[:-1])
