"""Steady state of a series of block times."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import ArrayLike, NDArray

GROUP = 5
"""Blocks whose median makes one point."""

MOST_POINTS = 400
"""Longer series get larger groups, so that the search stays within milliseconds."""

LEAST_SEGMENT = 3
SAME_RATIO = 0.01
LEAST_SHARE_RATIO = 0.25
LEAST_STEADY_NS = 250_000_000
_CLOCK_NOISE_RATIO = 0.001
_CLIP_SIGMAS = 3.0
_TREND_SIGMAS = 3.5
_WITHIN_RATIO = 0.95
_LEAST_CORRELATION, _MOST_CORRELATION = 0.7, 0.9
_LEAST_CORRELATED = 150


def steady_from(
    durations_ns: ArrayLike, *, least_steady_ns: float = LEAST_STEADY_NS, not_before: int = 0
) -> int | None:
    """Start of the last level of a series, if that level lasts long enough.

    Estimator: medians of 5 consecutive blocks (fewer below 100 blocks, more above 2000) are
    searched for shifts in mean (PELT, penalty ``4.5 ln n``) in units of the noise, a robust
    estimate from first differences, times what their autocorrelation adds to it (`_wander`).
    Levels within 1 %, or the noise, of the last one are merged with it. The last level is steady
    if it holds a quarter of the blocks and `least_steady_ns`, and does not itself drift.

    Parameters
    ----------
    durations_ns : array_like, shape (n,), int or float, in nanoseconds
        Every block from the first, in order of time.
    least_steady_ns : float
        What the steady blocks must add up to.
    not_before : int
        The first block that a steady state may hold: after the last compilation, say. The search
        starts anew there, and shares count from there.

    Returns
    -------
    int or None
        Index of the first steady block. None for n < 6, whatever the values, where a value is NaN,
        and where no steady state exists.

    Source
    ------
    Barrett, Bolz-Tereick, Killick, Mount and Tratt, *Virtual machine warmup blows hot and cold*,
    2017; Killick, Fearnhead and Eckley, *Optimal detection of changepoints with a linear
    computational cost*, 2012. The package ``ruptures`` finds the same shifts; its search in C takes
    0.5 ms for 400 points where this one takes 4, and importing it takes 900 ms of every process.
    """
    import numpy as np

    durations = np.asarray(durations_ns, dtype=np.float64)
    if not_before > 0:
        rest = steady_from(durations[not_before:], least_steady_ns=least_steady_ns)
        return None if rest is None else rest + not_before
    if durations.size < 2 * LEAST_SEGMENT or not np.isfinite(durations).all():
        return None
    group = group_size(durations.size)
    points = _medians(durations, group)
    sigma = _noise(points)
    calm = clipped(points, sigma)
    wander = _wander(points)
    sigma *= wander
    ends = [0, *shifts(calm / sigma, 4.5 * math.log(points.size)), points.size]
    # What counts as the same level is said of medians of few blocks, however many make a point.
    few = sigma if group <= GROUP else wander * _noise(_medians(durations, GROUP))
    first = _first_of_last_level(points, ends, few)
    start = first * group
    steady = durations[start:]
    lasts = steady.size >= LEAST_SHARE_RATIO * durations.size and steady.sum() >= least_steady_ns
    if not lasts or _drifts(calm[first:], sigma) or _is_stair(calm / sigma, ends, first):
        return None
    return start


def median(values: ArrayLike, axis: int = -1) -> NDArray[float64]:
    """Medians along an axis, as ``numpy.median`` gives them for finite values.

    That one imports masked arrays to look for NaN: 20 ms in a process that may live for 400.
    """
    import numpy as np

    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=axis)
    n = ordered.shape[axis]
    middle = ordered.take([(n - 1) // 2, n // 2], axis=axis)
    return np.asarray(middle.mean(axis=axis))


def group_size(n: int) -> int:
    """How many consecutive blocks make one point of the search."""
    if n < 20 * GROUP:
        return max(1, n // 20)
    return GROUP * math.ceil(n / (GROUP * MOST_POINTS))


def _medians(durations: NDArray[float64], group: int) -> NDArray[float64]:
    """Medians of consecutive groups, shape (n // group,); a rest at the end is left out."""
    import numpy as np

    whole = durations.size // group * group
    return np.asarray(median(durations[:whole].reshape(-1, group), axis=1))


def _noise(points: NDArray[float64]) -> float:
    """Standard deviation of a point about its level, never below what the clock allows.

    Estimator: from first differences, the larger of the robust one (median absolute deviation)
    and the root of half their mean square without the excess of the largest twentieth. Of calls
    that take one of two values most differences are 0, and the robust one sees one value's scatter
    only.

    Source: von Neumann, *Distribution of the ratio of the mean square successive difference to the
    variance*, 1941.
    """
    import numpy as np

    steps = np.diff(points)
    robust = 1.4826 * float(median(np.abs(steps - median(steps))))
    sizes = np.sort(np.abs(steps))
    within = np.minimum(sizes, sizes[math.ceil(_WITHIN_RATIO * sizes.size) - 1])
    spread = max(robust, float(np.sqrt((within**2).mean()))) / math.sqrt(2.0)
    return max(spread, _CLOCK_NOISE_RATIO * abs(float(median(points))), np.finfo(float).tiny)


def _wander(points: NDArray[float64]) -> float:
    """By what factor a level's mean scatters more than that of independent points would.

    Estimator: ``sqrt((1 + rho) / (1 - rho))``, rho from the median absolute differences at lags 1
    and 2, which neither a slope nor a few shifts move. 1 for fewer than `_LEAST_CORRELATED` points
    and below `_LEAST_CORRELATION`, which two-valued calls reach by chance.

    Source: Chakar, Lebarbier, Levy-Leduc and Robin, *A robust approach for estimating change-points
    in the mean of an AR(1) process*, 2017.
    """
    import numpy as np

    if points.size < _LEAST_CORRELATED:
        return 1.0
    steps = (points[lag:] - points[:-lag] for lag in (1, 2))
    near, far = (float(median(np.abs(step - median(step)))) for step in steps)
    rho = (far / near) ** 2 - 1.0 if near > 0 else 0.0
    if rho < _LEAST_CORRELATION:
        return 1.0
    rho = min(rho, _MOST_CORRELATION)
    return math.sqrt((1.0 + rho) / (1.0 - rho))


def clipped(points: NDArray[float64], sigma: float) -> NDArray[float64]:
    """Points no further from their neighbours' median than noise explains: spikes are no shift."""
    import numpy as np

    padded = np.pad(points, 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 5)
    local = median(windows, axis=1)
    reach = _CLIP_SIGMAS * sigma
    return np.asarray(np.clip(points, local - reach, local + reach))


def shifts(points: NDArray[float64], penalty: float) -> list[int]:
    """Change points of the mean of a series with unit noise: the first point of each segment.

    Estimator: PELT, exact for the sum of squared distances from segment means plus `penalty` for
    each shift, no segment shorter than `LEAST_SEGMENT`. Time grows as n log n where shifts are
    many and as n squared where there are none.

    Parameters
    ----------
    points : ndarray, shape (n,), float64
        In units of their standard deviation. No shift is found for n < 2 * `LEAST_SEGMENT`.
    """
    import numpy as np

    n = points.size
    sums = np.concatenate(([0.0], np.cumsum(points - points.mean())))
    squares = np.concatenate(([0.0], np.cumsum((points - points.mean()) ** 2)))
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    previous = np.zeros(n + 1, dtype=np.int64)
    starts = np.array([0])
    for end in range(LEAST_SEGMENT, n + 1):
        inside = sums[end] - sums[starts]
        costs = best[starts] + squares[end] - squares[starts] - inside**2 / (end - starts)
        chosen = int(np.argmin(costs))
        best[end] = costs[chosen] + penalty
        previous[end] = starts[chosen]
        starts = np.append(starts[costs <= best[end]], end - LEAST_SEGMENT + 1)
    return _walk_back(previous, n)


def _walk_back(previous: NDArray[int64], n: int) -> list[int]:
    found = []
    while (n := int(previous[n])) > 0:
        found.append(n)
    return found[::-1]


def _first_of_last_level(points: NDArray[float64], ends: list[int], sigma: float) -> int:
    """The first point of the last segment and of all before it that are on its level."""
    level = float(median(points[ends[-2] : ends[-1]]))
    allowed = max(SAME_RATIO * abs(level), sigma)
    first = ends[-2]
    for start, end in zip(ends[-3::-1], ends[-2:0:-1], strict=False):
        if abs(float(median(points[start:end])) - level) > allowed:
            break
        first = start
    return first


def _drifts(points: NDArray[float64], sigma: float) -> bool:
    """Whether a level's own trend moves it by more than noise explains, and by more than 1 %."""
    import numpy as np

    n = points.size
    if n < 2 * LEAST_SEGMENT:
        return False
    places = np.arange(n) - (n - 1) / 2.0
    change = abs(float(places @ points)) / float(places @ places) * (n - 1)
    explained = _TREND_SIGMAS * sigma * math.sqrt(12.0 / n)
    return change > max(SAME_RATIO * abs(float(median(points))), explained)


def _is_stair(points: NDArray[float64], ends: Sequence[int], first: int) -> bool:
    """Whether the last level is part of a slope: a straight line fits better than levels.

    Estimator: over the points from any earlier shift on, the sum of squares about a line, and
    about the levels with `ln n` for each parameter that these have more; in units of the
    noise. Within the last level the line must fall or rise by more than half of 1 %.
    """
    last = points.size - first
    for place, start in enumerate(ends[:-2]):
        if start >= first:
            break
        rest = points[start:]
        levels = [points[low:high] for low, high in itertools.pairwise(ends[place:])]
        about_levels = sum(float(((part - part.mean()) ** 2).sum()) for part in levels)
        slope, about_line = _line(rest)
        more = 2 * len(levels) - 1 - 2
        moves = abs(slope) * last > SAME_RATIO * abs(float(median(rest))) / 2
        if moves and about_line < about_levels + more * math.log(rest.size):
            return True
    return False


def _line(points: NDArray[float64]) -> tuple[float, float]:
    """Slope of the line of least squares, and the sum of squares about it."""
    import numpy as np

    places = np.arange(points.size) - (points.size - 1) / 2.0
    slope = float(places @ points) / float(places @ places)
    rest = points - points.mean() - slope * places
    return slope, float(rest @ rest)
