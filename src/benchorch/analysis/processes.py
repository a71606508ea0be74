"""What several fresh processes say together: the process is the unit of evidence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchorch.analysis.quantiles import LEVEL_RATIO
from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import Observations

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import ArrayLike, NDArray


def steady_calls_ns(observations: Observations, steady_from: int | None) -> NDArray[float64]:
    """Time per call of each steady block, or of every block where no steady state was found.

    Returns
    -------
    ndarray, shape (n,), float64, in nanoseconds
        Block times divided by the calls of a block; empty where nothing was observed.
    """
    import numpy as np

    blocks = np.asarray(observations.durations_ns[steady_from or 0 :], dtype=np.float64)
    return blocks / observations.calls_per_block


def steady_median_ns(observations: Observations, steady_from: int | None) -> float:
    """The headline of one process: its steady median time per call, in nanoseconds.

    NaN where nothing was observed.
    """
    import numpy as np

    calls = steady_calls_ns(observations, steady_from)
    return float(np.median(calls)) if calls.size else math.nan


def half_width_ratio(values: ArrayLike, alpha: float) -> float | None:
    """How far the interval over processes reaches above its centre, as a share of it.

    Estimator: Student t on logarithms, ``exp(t * s / sqrt(n)) - 1``.

    Parameters
    ----------
    values : array_like, shape (n,), float
        One number a process, any unit.
    alpha : float
        What the two tails hold together.

    Returns
    -------
    float or None
        None for n = 0 and 1, and where a value is not a positive number; at n = 2 a number so
        wide that it rarely satisfies anyone.
    """
    logs = _logs(values)
    if logs is None or logs.size < 2:
        return None
    return math.expm1(_half_width(logs, alpha))


def over_processes(
    values: ArrayLike, *, unit: str, level_ratio: float = LEVEL_RATIO
) -> Estimate | None:
    """The median over processes, with an interval that holds for their spread.

    Estimator: Student t on the logarithms of one number a process, exponentiated; widened, if
    need be, to contain the median. Scaling all values scales the estimate; their order does not
    matter.

    Parameters
    ----------
    values : array_like, shape (n,), float
        One number a process, in `unit`.

    Returns
    -------
    Estimate or None
        None for n = 0 and where a value is NaN or infinite; without an interval for n = 1 and
        where a value is not positive.

    Source
    ------
    Kalibera and Jones, *Rigorous benchmarking in reasonable time*, on levels of repetition.
    """
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or not np.isfinite(array).all():
        return None
    median = float(np.median(array))
    low, high = _interval(array, median, level_ratio)
    return Estimate(
        value=median,
        low=low,
        high=high,
        level_ratio=level_ratio,
        n=int(array.size),
        unit=unit,
        method="median over processes; t on logarithms",
    )


def _interval(
    array: NDArray[float64], median: float, level_ratio: float
) -> tuple[float | None, float | None]:
    logs = _logs(array)
    if logs is None or logs.size < 2:
        return None, None
    centre, reach = float(logs.mean()), _half_width(logs, 1.0 - level_ratio)
    return min(math.exp(centre - reach), median), max(math.exp(centre + reach), median)


def _logs(values: ArrayLike) -> NDArray[float64] | None:
    """Logarithms, or None where a value has none."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    return np.log(array) if (np.isfinite(array) & (array > 0)).all() else None


def _half_width(logs: NDArray[float64], alpha: float) -> float:
    return student_t(alpha, logs.size - 1) * float(logs.std(ddof=1)) / math.sqrt(logs.size)


def student_t(alpha: float, degrees_of_freedom: float) -> float:
    """The two-sided critical value of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, 1.0 - alpha / 2.0))
