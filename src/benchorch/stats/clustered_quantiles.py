"""Quantiles of the calls of several processes, which resemble their own process's."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy import float64
from numpy.typing import NDArray

from benchorch.domain.estimate import Estimate
from benchorch.stats.quantiles import (
    LEVEL_RATIO,
    minimum_n,
    order_bounds,
    quantile,
    sample_quantile,
)

UNKNOWN_ALPHA = 0.35
"""How often the design effect may be larger than its upper bound."""

LEAST_PROCESSES = 5
"""Fewer processes show too little of how alike the calls of one are."""

# Lying above the quantile itself is too rare to show that alone.
_WIDER = 10.0


def pooled_quantile(
    samples: Sequence[NDArray[float64]], quantile_ratio: float, *, unit: str
) -> Estimate | None:
    """A quantile of all calls of several processes, each independent within its process.

    Estimator: the sample quantile of all calls; its interval is the order-statistic one for as
    many calls as these are worth: `worth`.

    Parameters
    ----------
    samples : sequence of ndarray, each of shape (n_i,), float64, in `unit`
        Each process's calls.

    Returns
    -------
    Estimate or None
        None where the calls are worth fewer than `minimum_n`, and for 2 to 4 processes; without
        an interval for one, whose calls do not show how processes differ.

    Source
    ------
    Woodruff, *Confidence intervals for medians and other position measures*, 1952; Korn and
    Graubard, *Confidence intervals for proportions with small expected number of positive counts*,
    1998, for the effective number.
    """
    values = np.sort(np.concatenate(samples))
    if len(samples) == 1:
        found = quantile(values, quantile_ratio, unit=unit)
        return found and replace(found, low=None, high=None, method="quantile of one process")
    if len(samples) < LEAST_PROCESSES or values.size < minimum_n(quantile_ratio):
        return None
    count = math.floor(worth(samples, quantile_ratio))
    bounds = order_bounds(count, quantile_ratio)
    if bounds is None:
        return None
    each = values.size / count
    return Estimate(
        value=sample_quantile(values, quantile_ratio),
        low=float(values[math.floor(bounds[0] * each)]),
        high=float(values[min(math.ceil((bounds[1] + 1) * each), values.size) - 1]),
        level_ratio=LEVEL_RATIO,
        n=count,
        unit=unit,
        method="quantile of calls; order-statistic interval at their effective number",
    )


def worth(samples: Sequence[NDArray[float64]], quantile_ratio: float) -> float:
    """Effective number of independent calls for a quantile, of calls from several processes.

    Estimator: their number over the design effect of lying above the quantile, which is one plus
    the calls of a process, less one, times the intraclass correlation. Of that the upper bound
    counts, at `UNKNOWN_ALPHA`: few processes hardly show how alike their calls are.

    Parameters
    ----------
    samples : sequence of ndarray, length k, each of shape (n_i,), float64
    """
    from scipy.special import fdtri

    sizes = np.asarray([sample.size for sample in samples], dtype=np.float64)
    total, groups = float(sizes.sum()), len(samples)
    found = []
    for level in {quantile_ratio, max(0.5, 1 - _WIDER * (1 - quantile_ratio))}:
        limit = sample_quantile(np.concatenate(samples), level)
        shares = np.asarray([float((sample > limit).mean()) for sample in samples])
        overall = float((sizes * shares).sum()) / total
        between = float((sizes * (shares - overall) ** 2).sum()) / (groups - 1)
        within = float((sizes * shares * (1 - shares)).sum()) / (total - groups)
        ratio = between / within if within > 0 else math.inf
        found.append(ratio / float(fdtri(groups - 1, total - groups, UNKNOWN_ALPHA)))
    return total / max(1.0, *found)
