"""Spread of three or four processes, moderated by what the run's other trials show."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LEAST_TRIALS = 3
"""Minimum of trials from which the variation of spreads can be estimated."""

ASSUMED_SPREAD_RATIO = 0.05
ASSUMED_FREEDOM = 4.0
_MOST_FREEDOM = 50.0
_LEAST_VARIANCE = 1e-6  # a spread of 0.1 %
_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualSpread:
    """How much processes of one trial usually differ on a machine.

    Attributes:
        variance: of logarithms.
        freedom: how many processes' worth of evidence it counts for, in degrees of freedom.
        assumed: whether it was assumed for want of other trials.
    """

    variance: float
    freedom: float
    assumed: bool = False

    def reach(self, logs: Sequence[float], alpha: float) -> float:
        """Student's t times the moderated standard deviation of one value of these.

        Where the usual spread is assumed only, never less than without it.
        """
        from benchorch.stats.student import student_t

        own, freedom = statistics.variance(logs), len(logs) - 1
        together = freedom + self.freedom
        variance = (self.freedom * self.variance + freedom * own) / together
        moderated = student_t(alpha, together) * math.sqrt(variance)
        alone = student_t(alpha, freedom) * math.sqrt(own) if self.assumed else 0.0
        return max(moderated, alone)


ASSUMED = UsualSpread(variance=ASSUMED_SPREAD_RATIO**2, freedom=ASSUMED_FREEDOM, assumed=True)
"""Of a trial alone: three processes that agree do not rule out a second level some per cent off."""


def usual_spread(trials: Iterable[Sequence[float]]) -> UsualSpread:
    """The usual spread of the processes of a trial, from all trials of one machine.

    Estimator: a scaled inverse chi-square fitted to the trials' variances by the moments of their
    logarithms. The more the trials' spreads resemble each other, the more it counts for.

    Parameters
    ----------
    trials : iterable of sequences of float
        Each trial's processes, positive, in any unit; trials of one process say nothing.

    Returns
    -------
    UsualSpread
        `ASSUMED` for fewer than `LEAST_TRIALS` trials.

    Source
    ------
    Smyth, *Linear models and empirical Bayes methods for assessing differential expression*,
    2004 (limma's moderated t).
    """
    return usual_spread_of_logs(
        [*map(math.log, values)] for values in trials if min(values, default=0) > 0
    )


def usual_spread_of_logs(trials: Iterable[Sequence[float]]) -> UsualSpread:
    """`usual_spread` of logarithms."""
    found = [
        (max(statistics.variance(logs), _LEAST_VARIANCE), len(logs) - 1)
        for logs in trials
        if len(logs) > 1
    ]
    return _fitted(found) if len(found) >= LEAST_TRIALS else ASSUMED


def _fitted(found: Sequence[tuple[float, int]]) -> UsualSpread:
    from scipy.special import digamma, polygamma

    logs = [math.log(v) - digamma(d / 2) + math.log(d / 2) for v, d in found]
    noise = statistics.fmean(float(polygamma(1, d / 2)) for _, d in found)
    freedom = _freedom(statistics.variance(logs) - noise)
    shift = float(digamma(freedom / 2)) - math.log(freedom / 2)
    return UsualSpread(variance=math.exp(statistics.fmean(logs) + shift), freedom=freedom)


def _freedom(excess: float) -> float:
    """The degrees of freedom d with trigamma(d / 2) = excess, by bisection; at most 50."""
    from scipy.special import polygamma

    low, high = 1e-3, _MOST_FREEDOM
    if excess <= float(polygamma(1, high / 2)):
        return high
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if polygamma(1, middle / 2) > excess else (low, middle)
    return low
