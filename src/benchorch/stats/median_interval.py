"""Interval of a median that assumes no distribution, in plain Python."""

import math
import statistics
from collections.abc import Callable, Sequence
from functools import cache

from benchorch.stats.quantiles import ALPHA

LEAST_VALUES = 5
"""From so many on a median has an interval at 95 %."""

GAP_RATIO = 0.3
"""A step between neighbours that is a larger share of the whole range is a gap between levels."""

REST_RATIO = 3.0
"""So is one that is more times as long as the way that is left to the median."""

_BEYOND_RATIO = 0.06  # 95.5 % of normal values, 95 % of uniform ones
_Between = Callable[[float, float, float], float]


def median_interval(values: Sequence[float], alpha: float = ALPHA) -> tuple[float, float] | None:
    """Confidence interval of the population median, by order statistics.

    Estimator: order statistics, interpolated between the narrowest pair that errs no more often
    than `alpha` and the next narrower one, on logarithms where all values are positive. Across a
    gap (`GAP_RATIO`, `REST_RATIO`) the outer one stands: values in two modes have no density to
    interpolate with, and the exact interval is conservative for every distribution. Of five values
    the range holds the median in 93.75 % of cases; its ends are moved outward by `_BEYOND_RATIO` of
    it, though not below 0 where no value is.

    Parameters
    ----------
    values : sequence of float, length n, finite
        Independent; in any order and unit. Scaling them scales the interval; replacing each by
        its inverse inverts it.

    Returns
    -------
    tuple of float or None
        None where n is too small for `alpha`: below 5 at 5 %, below 8 at 1.15 %.

    Source
    ------
    Hettmansperger and Sheather, *Confidence intervals based on interpolated order statistics*,
    1986; Nyblom, *Note on interpolated order statistics*, 1992.
    """
    rank = _rank(len(values), alpha)
    smallest = len(values) == LEAST_VALUES and alpha == ALPHA
    if not rank and not smallest:
        return None
    ordered = sorted(values)
    between = _geometric if ordered[0] > 0 else _linear
    ends = (ordered, ordered[::-1])
    if smallest:
        low, high = (between(side[0], side[-1], -_BEYOND_RATIO) for side in ends)
    else:
        low, high = (_end(side, rank, alpha, between) for side in ends)
    return (max(low, 0.0) if ordered[0] >= 0 else low), high


def _end(side: Sequence[float], rank: int, alpha: float, between: _Between) -> float:
    """One end of the interval, of values sorted from that end."""
    outer = side[rank - 1]
    if rank + 1 > len(side) // 2:
        return outer
    inner = side[rank]
    scale = math.log if between is _geometric else float
    step, whole = scale(inner) - scale(outer), scale(side[-1]) - scale(side[0])
    rest = statistics.median(map(scale, side)) - scale(inner)
    is_gap = abs(step) > min(GAP_RATIO * abs(whole), REST_RATIO * abs(rest))
    return outer if is_gap else between(outer, inner, _share(len(side), rank, alpha))


def _linear(start: float, end: float, share: float) -> float:
    return start + share * (end - start)


def _geometric(start: float, end: float, share: float) -> float:
    """The same on logarithms, without their rounding where both are the same."""
    return start * math.exp(share * (math.log(end) - math.log(start)))


@cache
def _rank(n: int, alpha: float) -> int:
    """The largest rank, from 1, whose pair of order statistics is wide enough; 0 without one."""
    rank = 0
    while rank < n // 2 and _error_rate(n, rank + 1) <= alpha:
        rank += 1
    return rank


@cache
def _share(n: int, rank: int, alpha: float) -> float:
    """How far to go from an order statistic to the next, as a share of the step between them."""
    wide, narrow = _error_rate(n, rank), _error_rate(n, rank + 1)
    spent = (alpha - wide) / (narrow - wide)
    return (n - rank) * spent / (rank + (n - 2 * rank) * spent)


def _error_rate(n: int, rank: int) -> float:
    """Probability that the median is outside the order statistics of this rank from either end."""
    return float(sum(math.comb(n, k) for k in range(rank)) / 2 ** (n - 1))
