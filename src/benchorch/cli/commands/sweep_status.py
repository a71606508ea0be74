"""Progress of a sweep, from its plan, results, lock and status file."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from benchorch.domain.price import usd_of
from benchorch.domain.result import TrialResult, beside_baselines
from benchorch.domain.trial import Plan, Trial
from benchorch.journal import run_directory
from benchorch.journal.lock import Coordinator, TrialStatus, is_running, read_coordinator
from benchorch.journal.reader import read_journal
from benchorch.results.pricing.sweep_cost import TrialForecast, expected, market_of


class SweepState(StrEnum):
    """State of a sweep.

    ``ended`` has a result of every trial, ``interrupted`` was ended before by a person or an
    error, and of ``dead`` the coordinator died.
    """

    RUNNING = "running"
    ENDED = "ended"
    INTERRUPTED = "interrupted"
    DEAD = "dead"


@dataclass(frozen=True)
class SweepStatus:
    """One run, as it is now.

    Attributes:
        directory: the run's.
        plan: its trials, skips and settings.
        results: each trial's last one.
        marks: what is damaged or unusual about them, a sentence each.
        coordinator: the process that runs it or ran it; None where it left no status.
        running: whether a living process has its lock.
    """

    directory: Path
    plan: Plan
    results: Mapping[str, TrialResult]
    marks: Sequence[str]
    coordinator: Coordinator | None
    running: bool

    @property
    def state(self) -> SweepState:
        """Its state."""
        if self.running:
            return SweepState.RUNNING
        if not self.left or (self.coordinator and self.coordinator.complete):
            return SweepState.ENDED
        silent = self.coordinator is not None and self.coordinator.ended_at is None
        return SweepState.DEAD if silent else SweepState.INTERRUPTED

    @property
    def left(self) -> Sequence[Trial]:
        """What resuming would run: trials without a result, or failed by no fault of their own."""
        final = {trial_id for trial_id, result in self.results.items() if result.is_final}
        return [trial for trial in self.plan.trials if trial.trial_id not in final]

    @property
    def done(self) -> int:
        """Number of trials with a result, good or bad."""
        return len(self.plan.trials) - len(self.left)

    @property
    def failed(self) -> int:
        """Number of trials that failed, or whose outputs differ from the baseline's."""
        return sum(not result.is_sound for result in self.results.values())

    @property
    def busy(self) -> Mapping[str, TrialStatus]:
        """The trials that wait or run now, by their ids."""
        return self.coordinator.busy if self.running and self.coordinator else {}

    @cached_property
    def placed(self) -> Mapping[str, TrialStatus]:
        """Of those, the trials that have a machine."""
        return {trial_id: status for trial_id, status in self.busy.items() if not status.waits}

    @cached_property
    def left_s(self) -> float | None:
        """Expected duration of the rest, in seconds; None where nothing runs.

        The coordinator's own where it measures in rounds. Else assumes that each kind of machine
        runs as many trials at once as now; the slowest counts.
        """
        if not self.running:
            return None
        if self.coordinator and self.coordinator.expected_end:
            return _seconds(datetime.now(UTC).isoformat(), self.coordinator.expected_end)
        forecast = expected(self.plan, self.left)
        by_kind: dict[str, float] = {}
        at_once = Counter(t.hardware_kind for t in self.left if t.trial_id in self.placed)
        for trial in self.left:
            by_kind[trial.hardware_kind] = by_kind.get(trial.hardware_kind, 0.0) + self._remaining(
                trial, forecast
            )
        return max((s / max(1, at_once[kind]) for kind, s in by_kind.items()), default=0.0)

    @cached_property
    def usd(self) -> float | None:
        """Cost of its machines so far, in dollars; None where none is paid.

        As metered where they are launched for it, else by the time that trials have had them.
        """
        if self.coordinator is not None and self.coordinator.spending is not None:
            return self.coordinator.spending.usd
        spent = [*self._spent()]
        return sum(spent) if spent else None

    def _remaining(self, trial: Trial, forecast: Mapping[str, TrialForecast]) -> float:
        status = self.placed.get(trial.trial_id)
        elapsed_s = _since(status.since) if status else 0.0
        return max(0.0, forecast[trial.trial_id].seconds - elapsed_s)

    def _spent(self) -> Iterator[float]:
        market = market_of(self.plan)
        for trial in self.plan.trials:
            price = self.plan.prices.of(trial.hardware_kind, market) if self.plan.prices else None
            seconds = self._occupied_s(trial.trial_id)
            if price is not None and seconds is not None:
                yield usd_of(seconds, price.usd_per_hour)

    def _occupied_s(self, trial_id: str) -> float | None:
        """Time a trial has had its machine, in seconds; None before it had one."""
        result, status = self.results.get(trial_id), self.placed.get(trial_id)
        in_rounds = self.coordinator is not None and self.coordinator.expected_end is not None
        if result and in_rounds:  # its start and its end have other trials in between
            return sum(result.stages_s.values())
        if result and result.started_at and result.ended_at:
            return _seconds(result.started_at, result.ended_at)
        return _since(status.since) if status else None


def read_sweep(directory: Path) -> SweepStatus:
    """The run in a directory; ConfigError if there is none."""
    running = is_running(directory)  # first, so that a run that ends meanwhile is read as ended
    plan = run_directory.read_plan(directory)
    journal = read_journal(directory)
    return SweepStatus(
        directory=directory,
        plan=plan,
        results=beside_baselines({name: one.result for name, one in journal.entries.items()}),
        marks=(*journal.problems, *journal.marks),
        coordinator=read_coordinator(directory),
        running=running,
    )


def _since(moment: str) -> float:
    return _seconds(moment, datetime.now(UTC).isoformat())


def _seconds(start: str, end: str) -> float:
    """Between two moments, in seconds; 0 where the clock was set back, or one is no moment."""
    with contextlib.suppress(ValueError, TypeError):
        taken = datetime.fromisoformat(end) - datetime.fromisoformat(start)
        return max(0.0, taken.total_seconds())
    return 0.0
