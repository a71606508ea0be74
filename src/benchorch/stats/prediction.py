"""Interval within which a repetition of a measurement falls."""

import math
import statistics
from collections.abc import Sequence

from benchorch.domain.estimate import Estimate
from benchorch.stats.between_processes import bounded_exp
from benchorch.stats.quantiles import ALPHA
from benchorch.stats.student import student_t


def repetition_interval(
    values: Sequence[float],
    repeats: int,
    *,
    unit: str,
    alpha: float = ALPHA,
    margin_ratio: float = 0.0,
) -> Estimate | None:
    """The interval of the geometric mean of further processes, which are yet to run.

    Estimator: of logarithms, ``mean ± t(n - 1) s sqrt(1/n + 1/m)``, its ends moved outwards by the
    margin. It holds for processes of the same distribution: what differs between sessions besides
    is not in it.

    Parameters
    ----------
    values : sequence of float, length n, in `unit`
        One a process, all positive.
    repeats : int
        m, the number of further processes.
    alpha : float
        Error rate of the interval.
    margin_ratio : float
        A difference up to this share is of no practical importance.

    Returns
    -------
    Estimate or None
        None for n = 0, for m = 0 and where a value is not a positive finite number; without an
        interval for n = 1, whose spread is unknown.

    Source
    ------
    Hahn and Meeker, *Statistical Intervals*, 1991, section 4.7: a prediction interval to contain
    the mean of m future observations.
    """
    if not values or repeats < 1 or not all(0 < value < math.inf for value in values):
        return None
    logs, n = [math.log(value) for value in values], len(values)
    centre, low, high = statistics.fmean(logs), None, None
    if n > 1:
        spread = statistics.stdev(logs) * math.sqrt(1 / n + 1 / repeats)
        reach = student_t(alpha, n - 1) * spread + math.log1p(margin_ratio)
        low, high = bounded_exp(centre - reach), bounded_exp(centre + reach)
    return Estimate(
        value=math.exp(centre),
        low=low,
        high=high,
        level_ratio=1 - alpha,
        n=n,
        unit=unit,
        method=f"geometric mean of {repeats} further processes; t",
    )
