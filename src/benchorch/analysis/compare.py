"""A candidate against its baseline, by their processes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchorch.analysis.processes import student_t
from benchorch.analysis.quantiles import LEVEL_RATIO
from benchorch.domain.estimate import Comparison, Estimate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

DELTA_RATIO = 0.01
METHOD = "ratio of medians; Welch t on logarithms of independent processes"


def compare(
    candidate: ArrayLike,
    baseline: ArrayLike,
    *,
    delta_ratio: float = DELTA_RATIO,
    level_ratio: float = LEVEL_RATIO,
) -> Comparison | None:
    """The speed-up of a candidate over its baseline, and what may be said of it.

    Estimator: difference of the means of logarithms, exponentiated: baseline's time over
    candidate's, above 1 where the candidate is faster. Interval: Welch's t, so that the two may
    spread differently. Swapping the two inverts ratio and interval and flips the verdict; scaling
    both changes nothing.

    Parameters
    ----------
    candidate, baseline : array_like, shapes (n,) and (m,), float
        Each process's steady median time, positive, both in one unit.
    delta_ratio : float
        Differences up to this share are of no practical importance.

    Returns
    -------
    Comparison or None
        None where a side is empty or holds a NaN or a value that is not positive; without an
        interval, and so inconclusive, where a side has a single process.

    Source
    ------
    Welch, *The generalization of Student's problem*, 1947; equivalence by inclusion of the
    interval: Westlake, 1972.
    """
    import numpy as np

    times = [np.asarray(side, dtype=np.float64) for side in (candidate, baseline)]
    if any(side.size == 0 or not (np.isfinite(side) & (side > 0)).all() for side in times):
        return None
    ours, theirs = (np.log(side) for side in times)
    centre = float(theirs.mean() - ours.mean())
    sizes = ours.size, theirs.size
    if min(sizes) < 2:
        return Comparison(
            ratio=_estimate(centre, None, min(sizes), level_ratio),
            verdict="inconclusive",
            reason="one process says nothing about the spread between processes",
        )
    shares = float(ours.var(ddof=1)) / sizes[0], float(theirs.var(ddof=1)) / sizes[1]
    reach = _welch_reach(shares, sizes, 1.0 - level_ratio)
    verdict, reason = _verdict(centre - reach, centre + reach, math.log1p(delta_ratio))
    ratio = _estimate(centre, reach, min(sizes), level_ratio)
    return Comparison(ratio=ratio, verdict=verdict, reason=reason)


def _welch_reach(shares: tuple[float, float], sizes: tuple[int, int], alpha: float) -> float:
    """Half the interval's width, from each side's variance of the mean."""
    total = sum(shares)
    if total == 0:
        return 0.0
    spread = sum((share / total) ** 2 / (n - 1) for share, n in zip(shares, sizes, strict=True))
    return student_t(alpha, 1.0 / spread) * math.sqrt(total)


def _verdict(low: float, high: float, delta: float) -> tuple[str, str]:
    """The verdict on an interval of logarithms, and why there is none."""
    if low > 0:
        return "faster", ""
    if high < 0:
        return "slower", ""
    if -delta < low and high < delta:
        return "equivalent", ""
    return "inconclusive", "the interval includes both no difference and one that matters"


def _estimate(centre: float, reach: float | None, n: int, level_ratio: float) -> Estimate:
    return Estimate(
        value=math.exp(centre),
        low=None if reach is None else math.exp(centre - reach),
        high=None if reach is None else math.exp(centre + reach),
        level_ratio=level_ratio,
        n=n,
        unit="ratio",
        method=METHOD,
    )
