"""What comparisons of known differences would have found with fewer observations."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from benchorch.stats.quantiles import ALPHA
from benchorch.stats.student import student_t

POWER = 0.9
DRAWS = 400

_Z_LEVEL = statistics.NormalDist().inv_cdf(1 - ALPHA / 2)
_Z_POWER = statistics.NormalDist().inv_cdf(POWER)


class Found(NamedTuple):
    """Shares of comparisons that called one side slower, and that called it faster."""

    slower: float
    faster: float


def found_by_pairs(log_ratios: Sequence[float], n: int, *, seed: int = 0) -> Found | None:
    """How often a paired t of n of these pairs, at 5 %, gives either verdict.

    Estimator: of `DRAWS` random subsets of size n, the share whose interval lies above 0 and the
    share whose interval lies below. Subsets overlap: with N pairs the shares are of N pairs'
    worth of evidence, not of `DRAWS` experiments.

    Parameters
    ----------
    log_ratios : sequence of float, length N
        Logarithm of the time of the side with more to do over the other's, one a pair.
    n : int
        Pairs of a comparison, at least 3.

    Returns
    -------
    Found or None
        None where there are fewer than n pairs.
    """
    if len(log_ratios) < n:
        return None
    draw = random.Random(seed)
    ends = [_t_interval(draw.sample(list(log_ratios), n)) for _ in range(DRAWS)]
    return Found(
        slower=sum(low > 0 for low, _ in ends) / DRAWS,
        faster=sum(high < 0 for _, high in ends) / DRAWS,
    )


def smallest_by_pairs(log_ratios: Sequence[Sequence[float]], n: int) -> float | None:
    """The smallest share of more work that n pairs find in nine of ten comparisons.

    Estimator: ``exp((t + z) s / sqrt(n)) - 1``; t is Student's two-sided 5 % point of n - 1
    degrees of freedom, z the normal 90 % point, and s the standard deviation within groups.

    Parameters
    ----------
    log_ratios : sequence of sequences of float
        Groups of pairs with one true ratio each.

    Returns
    -------
    float or None
        None where no group has two pairs.

    Source
    ------
    Sample sizes for a mean: Desu and Raghavarao, *Sample Size Methodology*, 1990.
    """
    spread = _pooled_deviation(log_ratios)
    if spread is None:
        return None
    return math.expm1((student_t(ALPHA, n - 1) + _Z_POWER) * spread / math.sqrt(n))


def smallest_apart(logs: Sequence[float], n: int) -> float | None:
    """The smallest share of more work found between two stretches of n processes each.

    Of nine of ten comparisons of stretches of one series, at 5 %: what the machine changes by in
    between is in it. Estimator: ``exp((z1 + z2) d) - 1``, d the root mean square of the
    differences between the means of any two stretches of n consecutive values that do not
    overlap.

    Parameters
    ----------
    logs : sequence of float, length N
        Logarithms of one program's times, one a process, in the order in which they ran.

    Returns
    -------
    float or None
        None where N is below 2 n + 2.
    """
    if len(logs) < 2 * n + 2:
        return None
    means = [statistics.fmean(logs[start : start + n]) for start in range(len(logs) - n + 1)]
    squares = [
        (means[later] - means[start]) ** 2
        for start in range(len(means))
        for later in range(start + n, len(means))
    ]
    return math.expm1((_Z_LEVEL + _Z_POWER) * math.sqrt(statistics.fmean(squares)))


def _pooled_deviation(groups: Sequence[Sequence[float]]) -> float | None:
    known = [list(group) for group in groups if len(group) > 1]
    if not known:
        return None
    freedom = sum(len(group) - 1 for group in known)
    squares = math.fsum(statistics.variance(group) * (len(group) - 1) for group in known)
    return math.sqrt(squares / freedom)


def _t_interval(values: Sequence[float]) -> tuple[float, float]:
    centre = statistics.fmean(values)
    reach = student_t(ALPHA, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return centre - reach, centre + reach
