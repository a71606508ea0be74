"""How much a machine, and what else differs between sessions, may have changed between two."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchorch.domain.estimate import Estimate
from benchorch.stats.quantiles import ALPHA, standard_errors
from benchorch.stats.student import student_t

LEAST_SESSIONS = 3
"""Fewer sessions show nothing of how much sessions differ."""

_LEAST_MEMORY = math.log(1.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference of logarithms with its standard error.

    Attributes:
        centre: of A's less B's.
        spread: standard error.
        freedom: degrees of freedom of the spread; 0 where that is 0 by definition, infinite where
            it is assumed.
        explained: of sessions, whether their reference workloads were subtracted.
        assumed: of sessions, whether nothing shows by how much they differ.
    """

    centre: float = 0.0
    spread: float = 0.0
    freedom: float = 0.0
    explained: bool = False
    assumed: bool = False

    def reach(self, alpha: float) -> float:
        """How far its interval goes from its centre."""
        return student_t(alpha, self.freedom) * self.spread if self.spread else 0.0

    @property
    def largest_ratio(self) -> float:
        """The far end of its interval, as a share."""
        return math.expm1(abs(self.centre) + self.reach(ALPHA))


def reference_change(
    a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]
) -> Difference | None:
    """The difference of the reference workloads of two sessions; None where one has none.

    Estimator: Welch's, of one mean logarithm a process.

    Source: Welch, *The generalization of Student's problem*, 1947.
    """
    if not (any(a) and any(b)):
        return None
    sides = [[statistics.fmean(map(math.log, times)) for times in side if times] for side in (a, b)]
    means = [statistics.fmean(side) for side in sides]
    shares = [statistics.variance(s) / len(s) if len(s) > 1 else 0.0 for s in sides]
    total = sum(shares)
    freedom = 0.0
    if total > 0:
        weights = [(v / total) ** 2 / (len(s) - 1) for v, s in zip(shares, sides, strict=True) if v]
        freedom = 1 / sum(weights)
    return Difference(centre=means[0] - means[1], spread=math.sqrt(total), freedom=freedom)


def memory_change(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> Difference | None:
    """The difference of the copies of memory of two sessions; None unless it is large and sure.

    Processes of a quiet machine differ so much in it that a small one says nothing of a model.
    """
    found = reference_change(a, b)
    sure = found is not None and abs(found.centre) - found.reach(ALPHA) > _LEAST_MEMORY
    return found if sure else None


def reference_floor_change(
    a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]
) -> Difference | None:
    """The difference of the fastest reference workloads of two sessions; None where one has none.

    A change of the clock's frequency is in it; what disturbs now and then is not.
    """
    if not (any(a) and any(b)):
        return None
    fastest = [reference_floor_level(side) or 0.0 for side in (a, b)]
    return Difference(centre=fastest[0] - fastest[1])


def session_spread(
    sessions: Sequence[Estimate], references: Sequence[float] = ()
) -> Difference | None:
    """Session component between sessions of the same code; None for too few.

    Estimator: variance of the sessions' logarithms, less the mean of what their own intervals
    explain of it, not below 0; twice that for a difference of two. Of the logarithms as they are,
    or less those of the reference workloads where these explain more than they add: then
    `explained` is so.

    Parameters
    ----------
    sessions : sequence of Estimate
        Of one trial, one a session; those without an interval above 0 do not count.
    references : sequence of float
        Each session's `reference_level`, or for floors `reference_floor_level`; none where they do
        not count.

    Source
    ------
    Kalibera and Jones, *Rigorous benchmarking in reasonable time*, 2013: the highest level of
    repetition.
    """
    machine = references or [0.0] * len(sessions)
    known = [
        (_log_error(each), math.log(each.value), change)
        for each, change in zip(sessions, machine, strict=True)
        if (each.low or 0) > 0 and each.high and each.value > 0
    ]
    if len(known) < LEAST_SESSIONS:
        return None
    within = statistics.fmean(error**2 for error, _, _ in known)
    plain = statistics.variance(value for _, value, _ in known)
    less = statistics.variance(value - change for _, value, change in known)
    between = max(min(plain, less) - within, 0.0)
    return Difference(
        spread=math.sqrt(2 * between),
        freedom=len(known) - 1,
        explained=bool(references) and less < plain,
    )


def assumed_session_spread(*sides: tuple[Estimate, int]) -> Difference:
    """What two sessions differ by, where nothing shows it: as much as processes within them do.

    Estimator: of each side, the standard error that its interval stands for, times
    ``sqrt(2 n / pi)``, which makes it that of one process, as it is for a median of n.

    Parameters
    ----------
    sides : pair of (Estimate, int)
        With an interval, both ends positive; and how many processes it is of.
    """
    variance = sum(n * _log_error(one) ** 2 * 2 / math.pi for one, n in sides)
    return Difference(spread=math.sqrt(variance), freedom=math.inf, assumed=True)


def _log_error(one: Estimate) -> float:
    """The standard error of a logarithm that its interval stands for, both ends positive."""
    return math.log((one.high or 1) / (one.low or 1)) / (2 * standard_errors(one))


def reference_level(times: Sequence[Sequence[float]]) -> float | None:
    """The mean logarithm of a session's reference workloads, one mean a process."""
    means = [statistics.fmean(map(math.log, around)) for around in times if around]
    return statistics.fmean(means) if means else None


def reference_floor_level(times: Sequence[Sequence[float]]) -> float | None:
    """The logarithm of a session's fastest reference workload."""
    found = [time for around in times for time in around]
    return math.log(min(found)) if found else None
