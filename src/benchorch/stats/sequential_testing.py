"""Group-sequential testing: when to analyse, and the error rate of each interim analysis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from benchorch.stats.quantiles import ALPHA

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

LEAST_PAIRS = 3
"""Minimum of pairs for Student's t."""

USUAL_LOOKS = (5, 8, 12, 18, 27, 40)

CONVERGED = "converged"
"""Why a trial stopped that was precise and decided by itself."""

_LAST_LOOK = 10**9

_LEAST_KNOWN_ALPHA = 1e-4
_SEQUENCES = 1_000_000

# Of each analysis, by the error rate of all together: 20 million simulated sequences. Pocock's own
# constant for normal data of known spread, 0.0142, errs at 5.9 %.
_KNOWN: dict[tuple[int, ...], dict[float, float]] = {
    USUAL_LOOKS: {
        0.05: 0.0115,
        0.025: 0.00553,
        0.01: 0.00207,
        0.005: 0.000998,
        0.002: 0.000385,
        0.001: 0.000188,
        0.0005: 9.11e-5,
        0.0001: 1.75e-5,
    }
}


@cache
def geometric(first: int, growth_ratio: float) -> frozenset[int]:
    """The counts at which a growing series is analysed: `first`, then ever larger steps.

    ``geometric(10, 1.25)`` holds 10, 13, 17, 22, 28, ...: each at least one more than the last.
    """
    looks, count = set(), first
    while count < _LAST_LOOK:
        looks.add(count)
        count = max(count + 1, int(-(-count * growth_ratio // 1)))
    return frozenset(looks)


def look_alpha(looks: tuple[int, ...], overall_alpha: float = ALPHA) -> float:
    """The error rate of each analysis that keeps that of all together at `overall_alpha`.

    Estimator: over simulated normal sequences without an effect, the `overall_alpha` quantile of
    the smallest two-sided Student t p-value at any analysis: known for the usual analyses, else
    simulated, with a Monte-Carlo error of 3 % at an `overall_alpha` of 0.001. Never less than an
    equal share for each analysis, which no sequence exceeds.

    Parameters
    ----------
    looks : sequence of int
        Counts of processes, each at least 2, increasing; a single analysis where there are none.

    Source
    ------
    Pocock, *Group sequential methods*, 1977; with Student's t in place of the normal.
    """
    if len(looks) < 2:
        return overall_alpha
    share = overall_alpha / len(looks)
    if looks in _KNOWN and overall_alpha >= _LEAST_KNOWN_ALPHA:
        return max(share, _interpolated(_KNOWN[looks], overall_alpha))
    smallest = _smallest_p_values(looks)
    return max(share, float(smallest[int(overall_alpha * len(smallest))]))


def _interpolated(known: Mapping[float, float], overall_alpha: float) -> float:
    """Interpolation on logarithms, in which both are nearly proportional."""
    if overall_alpha in known:
        return known[overall_alpha]
    import numpy as np

    overall = sorted(known)
    each = [known[alpha] for alpha in overall]
    return math.exp(np.interp(math.log(overall_alpha), np.log(overall), np.log(each)))


@cache
def _smallest_p_values(looks: tuple[int, ...]) -> NDArray[float64]:
    """Smallest p-value of each simulated sequence; sorted, shape (`_SEQUENCES`,)."""
    import numpy as np
    from scipy.special import stdtr

    rng = np.random.default_rng(0)
    sums, squares, smallest = (np.full(_SEQUENCES, start) for start in (0.0, 0.0, 1.0))
    for before, n in itertools.pairwise((0, *looks)):
        more = n - before
        step = rng.standard_normal(_SEQUENCES) * math.sqrt(more)
        sums += step
        squares += step**2 / more + rng.chisquare(more - 1, _SEQUENCES) if more > 1 else step**2
        spread = np.sqrt((squares - sums**2 / n) / (n - 1))
        p = 2.0 * stdtr(n - 1, -np.abs(sums) / (math.sqrt(n) * spread))
        smallest = np.minimum(smallest, p)
    return np.sort(smallest)
