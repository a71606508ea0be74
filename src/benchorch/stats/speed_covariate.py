"""The machine's speed around each process as a covariate: times at one speed for all trials."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchorch.domain.estimate import Estimate
from benchorch.stats.between_processes import over_processes
from benchorch.stats.quantiles import ALPHA
from benchorch.stats.student import student_t

LEAST_FREEDOM = 8
"""Minimum of degrees of freedom for a slope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedTrial:
    """One trial.

    Attributes:
        times: of each process, positive, in any unit.
        references: of each, the reference workload around it, in any unit of its own.
    """

    times: Sequence[float]
    references: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedEffect:
    """How a machine's speed moves times.

    Attributes:
        slope: by how many per cent a time grows where the reference workload grows by one.
        reach: half the slope's 95 % interval.
        level: the reference workload's time at which trials are compared: its median over all
            processes of all trials.
    """

    slope: float
    reach: float
    level: float

    def adjusted(self, trial: TimedTrial, *, unit: str) -> Estimate | None:
        """Median over processes, adjusted to the machine's speed at `level`.

        Estimator: `over_processes` of each time divided by (reference / level) ** slope. The
        interval is widened by what the slope's own error moves the trial as a whole.
        """
        shifts = [math.log(reference / self.level) for reference in trial.references]
        times = [
            time * math.exp(-self.slope * shift)
            for time, shift in zip(trial.times, shifts, strict=True)
        ]
        found = over_processes(times, unit=unit)
        if found is None or found.low is None or found.high is None:
            return found
        wider = math.exp(self.reach * abs(statistics.fmean(shifts)))
        return replace(
            found, low=found.low / wider, high=found.high * wider, method=f"{found.method}; ANCOVA"
        )


def speed_effect(trials: Sequence[TimedTrial]) -> SpeedEffect | None:
    """The common slope of trials on one machine.

    Estimator: regression of log times on log references within trials, one slope for all
    (analysis of covariance): what trials differ by has no part in it. No process is left out, and
    the order of processes does not matter.

    Returns
    -------
    SpeedEffect or None
        None below `LEAST_FREEDOM` degrees of freedom, and where the slope's 95 % interval
        includes 0: nothing can then be said to follow the machine.

    Source
    ------
    Cochran, *Analysis of covariance: its nature and uses*, 1957.
    """
    x = [value for trial in trials for value in _centred_logs(trial.references)]
    y = [value for trial in trials for value in _centred_logs(trial.times)]
    freedom = len(x) - len(trials) - 1
    squares = math.fsum(value * value for value in x)
    if freedom < LEAST_FREEDOM or squares == 0:
        return None
    slope = math.fsum(a * b for a, b in zip(x, y, strict=True)) / squares
    residual = math.fsum((b - slope * a) ** 2 for a, b in zip(x, y, strict=True)) / freedom
    reach = student_t(ALPHA, freedom) * math.sqrt(residual / squares)
    if slope - reach <= 0:
        return None
    level = statistics.median([value for trial in trials for value in trial.references])
    return SpeedEffect(slope=slope, reach=reach, level=level)


def _centred_logs(values: Sequence[float]) -> list[float]:
    logs = [math.log(value) for value in values]
    centre = math.fsum(logs) / max(len(logs), 1)
    return [value - centre for value in logs]
