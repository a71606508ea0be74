"""The mean of a few independent values, with its interval."""

import math
import statistics
from collections.abc import Sequence

from benchorch.domain.estimate import Estimate
from benchorch.stats.quantiles import ALPHA, LEVEL_RATIO
from benchorch.stats.student import student_t


def mean(values: Sequence[float], *, of: str, unit: str, alpha: float = ALPHA) -> Estimate | None:
    """The mean of independent values with Student's t.

    Parameters
    ----------
    values : sequence of float, length n, in `unit`
    of : str
        What they are, for the method's name.
    alpha : float
        Error rate of the interval, as in `over_processes`.

    Returns
    -------
    Estimate or None
        None for n = 0; without an interval for n = 1.
    """
    if not values:
        return None
    centre, n = statistics.fmean(values), len(values)
    reach = None
    if n > 1:
        reach = student_t(alpha, n - 1) * statistics.stdev(values) / math.sqrt(n)
    return Estimate(
        value=centre,
        low=None if reach is None else centre - reach,
        high=None if reach is None else centre + reach,
        level_ratio=LEVEL_RATIO,
        n=n,
        unit=unit,
        method=f"mean of {of}; t",
    )
