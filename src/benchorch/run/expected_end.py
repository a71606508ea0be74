"""When a run that measures in rounds is expected to end, corrected by what its processes took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.duration_forecast import planned_processes
from benchorch.results.pricing.sweep_cost import TrialForecast


@final
@dataclass(slots=True, kw_only=True)
class ExpectedEnd:
    """Seconds that are left.

    Attributes:
        trials: those to run, by id.
        forecast: the plan's own, by id.
        budget_ends_s: on the monotonic clock, when no more processes are added; None without one.
        measured: what was measured so far of those that have begun.
        decided: the ids of those that get no more processes, for now.
    """

    trials: Mapping[str, Trial]
    forecast: Mapping[str, TrialForecast]
    budget_ends_s: float | None = None
    measured: dict[str, TrialResult] = field(default_factory=dict)
    decided: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls, trials: Sequence[Trial], forecast: Mapping[str, TrialForecast], budget_s: float | None
    ) -> ExpectedEnd:
        """Of trials that begin now."""
        ends_s = None if budget_s is None else time.monotonic() + budget_s
        known = {trial.trial_id: trial for trial in trials}
        return cls(trials=known, forecast=forecast, budget_ends_s=ends_s)

    def note(self, result: TrialResult) -> None:
        """Take what was measured of one trial into account."""
        self.measured[result.trial_id] = result
        if not result.unfinished:
            self.decided.add(result.trial_id)
        elif not result.stop_reason:
            self.decided.discard(result.trial_id)

    @property
    def left_s(self) -> float:
        """Seconds until the end: no longer than the budget once every trial has begun."""
        left = sum(self._rests())
        if self.budget_ends_s is None or len(self.measured) < len(self.trials):
            return left
        return min(left, max(0.0, self.budget_ends_s - time.monotonic()))

    def _rests(self) -> Iterator[float]:
        for trial_id, trial in self.trials.items():
            if trial_id in self.decided:
                continue
            if trial_id in self.measured:
                yield self._rest_s(trial, self.measured[trial_id])
            else:
                yield self.forecast[trial_id].seconds

    def _rest_s(self, trial: Trial, result: TrialResult) -> float:
        """Of a trial that has begun: as many processes as are planned, each as long as before."""
        count = len(result.valid)
        taken_s = result.stages_s.get("measure", 0.0)
        planned = planned_processes(trial, after=count)
        if planned is None or not count:
            return max(0.0, self.forecast[trial.trial_id].seconds - taken_s)
        return taken_s / count * max(0, planned - count)
