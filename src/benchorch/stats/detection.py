"""Detection rates of known differences with fewer observations."""

import math
import random
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchorch.stats.median_interval import median_interval
from benchorch.stats.quantiles import ALPHA
from benchorch.stats.student import student_t

POWER = 0.9
DRAWS = 400

_Z_LEVEL = statistics.NormalDist().inv_cdf(1 - ALPHA / 2)
_Z_POWER = statistics.NormalDist().inv_cdf(POWER)

Test = Callable[[Sequence[float]], tuple[float, float]]
"""The ends of an interval at 5 %; adding a number to all values adds it to both."""


class DetectedShares(NamedTuple):
    """Shares of comparisons that called one side slower, and that called it faster."""

    slower: float
    faster: float


def by_mean(values: Sequence[float]) -> tuple[float, float]:
    """A paired t."""
    centre = statistics.fmean(values)
    reach = student_t(ALPHA, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return centre - reach, centre + reach


def by_median(values: Sequence[float]) -> tuple[float, float]:
    """Order statistics of the median; without ends below five values."""
    ends = median_interval([math.exp(value) for value in values])
    return (-math.inf, math.inf) if ends is None else (math.log(ends[0]), math.log(ends[1]))


def found_by_pairs(
    log_ratios: Sequence[float], n: int, test: Test = by_mean
) -> DetectedShares | None:
    """How often n of these pairs, at 5 %, give either verdict.

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
    ends = _drawn(log_ratios, n, test)
    if not ends:
        return None
    return DetectedShares(
        slower=sum(low > 0 for low, _ in ends) / DRAWS,
        faster=sum(high < 0 for _, high in ends) / DRAWS,
    )


def smallest_by_pairs(
    log_ratios: Sequence[Sequence[float]], n: int, test: Test = by_mean
) -> float | None:
    """The smallest share of more work that n pairs find in nine of ten comparisons.

    Estimator: each group less its median, all together, are pairs without a difference; of
    `DRAWS` random subsets of size n, the difference that would lift the lower end of nine in ten
    intervals above 0.

    Parameters
    ----------
    log_ratios : sequence of sequences of float
        Groups of pairs with one true ratio each.

    Returns
    -------
    float or None
        None where all groups together have fewer than n pairs, or no interval has ends.
    """
    residuals = [
        value - centre
        for group in log_ratios
        if group
        for centre in [statistics.median(group)]
        for value in group
    ]
    lows = sorted(low for low, _ in _drawn(residuals, n, test))
    reached = -lows[round((1 - POWER) * (len(lows) - 1))] if lows else math.inf
    return math.expm1(max(reached, 0.0)) if math.isfinite(reached) else None


def smallest_apart(logs: Sequence[float], n: int) -> float | None:
    """The smallest share of more work found between two stretches of n processes each.

    Of nine of ten comparisons of stretches of one series, at 5 %: what the machine changes by in
    between is in it. Estimator: ``exp((z1 + z2) d) - 1``, d the root mean square of the
    differences between the medians of any two stretches of n consecutive values that do not
    overlap; z1 and z2 the normal points of the level and of the power.

    Parameters
    ----------
    logs : sequence of float, length N
        Logarithms of one program's times, one a process, in the order in which they ran.

    Returns
    -------
    float or None
        None where N is below 2 n + 2.

    Source
    ------
    Sample sizes for a mean: Desu and Raghavarao, *Sample Size Methodology*, 1990.
    """
    if len(logs) < 2 * n + 2:
        return None
    medians = [statistics.median(logs[start : start + n]) for start in range(len(logs) - n + 1)]
    squares = [
        (medians[later] - medians[start]) ** 2
        for start in range(len(medians))
        for later in range(start + n, len(medians))
    ]
    return math.expm1((_Z_LEVEL + _Z_POWER) * math.sqrt(statistics.fmean(squares)))


def _drawn(values: Sequence[float], n: int, test: Test) -> list[tuple[float, float]]:
    """Intervals of random subsets of size n; the same ones for the same values."""
    draw = random.Random(0)
    return [test(draw.sample(list(values), n)) for _ in range(DRAWS if len(values) >= n else 0)]
