"""The interval of a ratio from the two intervals of its parts."""

from __future__ import annotations

import math
from statistics import NormalDist

from benchorch.domain.estimate import Estimate
from benchorch.stats.quantiles import ALPHA


def ratio_interval(above: Estimate, below: Estimate, *, alpha: float) -> tuple[float, float] | None:
    """Ends of ``log(above / below)``; None where a side has no interval, or one with a zero in it.

    Estimator: the distances from each estimate to the end that matters, on logarithms, added as
    independent standard errors are; for another error rate than that of the two intervals, scaled
    as a normal's would be. It keeps whatever asymmetry the two intervals have. Swapping the two
    mirrors it.

    Source
    ------
    Zou and Donner, *Construction of confidence limits about effect measures*, 2008 (MOVER).
    """
    ends = (above.low, above.value, above.high, below.low, below.value, below.high)
    if not all(end is not None and 0 < end < math.inf for end in ends):
        return None
    low, mid, high, other_low, other_mid, other_high = (math.log(end or 1) for end in ends)
    scale = _z(alpha) / _z(ALPHA)
    centre = mid - other_mid
    down = scale * math.hypot(mid - low, other_high - other_mid)
    up = scale * math.hypot(high - mid, other_mid - other_low)
    return centre - down, centre + up


def _z(alpha: float) -> float:
    return NormalDist().inv_cdf(1 - alpha / 2)
