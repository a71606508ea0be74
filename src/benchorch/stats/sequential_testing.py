"""Group-sequential testing: when to analyse, and the error rate of each interim analysis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

LEAST_PAIRS = 3
"""With fewer, Student's t says more about luck than about a spread."""

_LAST_LOOK = 10**9

# All six together err at 4.8 % (400 000 simulated sequences); Pocock's own constant for normal
# data of known spread, 0.0142, errs at 5.9 %.
_KNOWN: dict[tuple[int, ...], float] = {(5, 8, 12, 18, 27, 40): 0.0115}


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


def look_alpha(looks: tuple[int, ...]) -> float:
    """The error rate of each of these analyses: known for the usual ones, else calibrated."""
    return _KNOWN.get(looks) or _calibrated(looks)


@cache
def _calibrated(looks: tuple[int, ...]) -> float:
    return calibrate_alpha(looks)


def calibrate_alpha(
    looks: Sequence[int], *, overall_alpha: float = 0.05, sequences: int = 40_000, seed: int = 0
) -> float:
    """The error rate of each interim analysis that keeps that of all together at `overall_alpha`.

    Estimator: over simulated normal sequences without an effect, the `overall_alpha` quantile of
    the smallest two-sided Student t p-value at any analysis. Monte-Carlo error about 2 % of the
    result at 40 000 sequences.

    Parameters
    ----------
    looks : sequence of int
        Counts of processes, each at least 2, increasing.

    Source
    ------
    Pocock, *Group sequential methods*, 1977; with Student's t in place of the normal.
    """
    import numpy as np
    from scipy.special import stdtr

    draws = np.random.default_rng(seed).standard_normal((sequences, max(looks)))
    smallest = np.ones(sequences)
    for n in looks:
        observed = draws[:, :n]
        t = np.abs(observed.mean(axis=1)) * np.sqrt(n) / observed.std(axis=1, ddof=1)
        smallest = np.minimum(smallest, 2.0 * stdtr(n - 1, -t))
    return float(np.quantile(smallest, overall_alpha))
