"""Detection of shifts in the level of a figure from session to session."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchorch.domain.estimate import Estimate
from benchorch.stats.between_processes import bounded_exp
from benchorch.stats.quantiles import ALPHA, standard_errors
from benchorch.stats.steady_state import LEAST_SEGMENT, clipped, shifts
from benchorch.stats.student import student_t

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

LEAST_RATIO = 0.01
"""Shifts up to this share are of no practical importance, and left out."""

_LEAST_NOISE = 1e-3
_PENALTY = 4.5
_METHOD = "PELT on logarithms; Student's t of neighbouring levels, Bonferroni over all places"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelShift:
    """Shift between two levels.

    Attributes:
        start: index of the first value of the new level.
        ratio: new level over the one before.
    """

    start: int
    ratio: Estimate


def level_shifts(values: Sequence[Estimate]) -> list[LevelShift]:
    """The shifts of a series of sessions, one estimate each, in order of time.

    Estimator: PELT with penalty ``4.5 ln n`` over the logarithms in units of their noise, which is
    what neighbours usually differ by, and at least what the estimates' own intervals explain; a
    lone outlier is moved to its neighbours first. Shifts are dropped until each one differs from 1
    by Student's t over both its levels, with the variance of all levels, at 5 % over all places of
    the series together, and begins with a value of its own level.

    Parameters
    ----------
    values : sequence of Estimate, length n
        Positive. A level has three values or more, so that nothing is found for n < 6, and a
        shift is seen with the third value after it.

    Source
    ------
    Killick, Fearnhead and Eckley, *Optimal detection of changepoints with a linear computational
    cost*, 2012.
    """
    import numpy as np

    if len(values) < 2 * LEAST_SEGMENT:
        return []
    points = np.log([each.value for each in values])
    own = statistics.median(map(_own_spread, values))
    sigma = max(_usual_step(points), own, _LEAST_NOISE)
    points = clipped(points, sigma)
    starts = shifts(points / sigma, _PENALTY * math.log(points.size))
    least = math.log1p(LEAST_RATIO)
    while starts:
        found = list(_shifts(points, starts, max(own, _LEAST_NOISE)))
        small = [i for i, one in enumerate(found) if abs(math.log(one.ratio.value)) <= least]
        weak = min(range(len(found)), key=lambda index: _strength(found[index].ratio))
        early = [i for i in range(len(starts)) if _is_early(points, starts, i)]
        dropped = [*early, *small, *([weak] if _strength(found[weak].ratio) <= 1 else [])]
        if not dropped:
            return found
        del starts[dropped[0]]
    return []


def _is_early(points: NDArray[float64], starts: Sequence[int], index: int) -> bool:
    """Whether a new level begins with a value of the old one, because too few are new."""
    ends = [0, *starts, points.size]
    low, start, high = ends[index : index + 3]
    before, after = points[low:start].mean(), points[start:high].mean()
    return bool(abs(points[start] - before) < abs(points[start] - after))


def _own_spread(estimate: Estimate) -> float:
    """The standard error of a logarithm as its interval has it; 0 without one."""
    low, high = estimate.low, estimate.high
    if not low or not high or low < 0:
        return 0.0
    return math.log(high / low) / (2 * standard_errors(estimate))


def _usual_step(points: NDArray[float64]) -> float:
    """The spread of one value about its level, from the median step between neighbours."""
    steps = [abs(after - before) for before, after in itertools.pairwise(points.tolist())]
    return float(1.4826 * statistics.median(steps) / math.sqrt(2.0))


def _shifts(
    points: NDArray[float64], starts: Sequence[int], least_noise: float
) -> Iterator[LevelShift]:
    """Each shift with the interval of its ratio."""
    ends = [0, *starts, points.size]
    levels = [points[low:high] for low, high in itertools.pairwise(ends)]
    freedom = points.size - len(levels)
    inside = sum(float(((level - level.mean()) ** 2).sum()) for level in levels)
    spread = max(math.sqrt(inside / freedom), least_noise)
    t = student_t(ALPHA / (points.size - 1), freedom)
    for start, (before, after) in zip(starts, itertools.pairwise(levels), strict=True):
        step = float(after.mean() - before.mean())
        reach = t * spread * math.sqrt(1 / before.size + 1 / after.size)
        ratio = Estimate(
            value=bounded_exp(step),
            low=bounded_exp(step - reach),
            high=bounded_exp(step + reach),
            level_ratio=1 - ALPHA,
            n=min(before.size, after.size),
            unit="ratio",
            method=_METHOD,
        )
        yield LevelShift(start=start, ratio=ratio)


def _strength(ratio: Estimate) -> float:
    """How many half-widths of its interval a ratio is away from 1."""
    assert ratio.high is not None  # `_shifts` gives both ends
    return abs(math.log(ratio.value)) / math.log(ratio.high / ratio.value)
