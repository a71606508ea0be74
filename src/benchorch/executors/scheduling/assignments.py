"""Task assignments: which trials are owed, which agent holds them, what a lost agent costs.

Pure bookkeeping: no clock, no network. Whatever the cluster does, there is exactly one result per
trial, a trial is only assigned to an agent of its own kind, and every loss uses up an attempt or
one of a few retries that do not count, so that every sweep ends.
"""

import dataclasses
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import final

from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.queue import (
    UNKNOWN,
    Forecast,
    QueuedTrial,
    ReadyQueue,
    SharedBuilds,
)

KIND_LABEL = "hardware_kind"

MAX_UNCOUNTED = 10
"""How often a trial may lose its node with notice before that uses up its attempts, too."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignment:
    """One attempt at a trial, held by one agent; the number identifies it."""

    number: int
    trial: Trial
    attempt: int
    agent: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The consequences of a loss.

    Attributes:
        results: of trials that have used up their attempts.
        retried: trials that are queued again, with the attempt that comes next.
    """

    results: tuple[TrialResult, ...] = ()
    retried: tuple[tuple[Trial, int], ...] = ()


@final
class TaskAssignments:
    """The state of one sweep; lives as long as the sweep.

    Args:
        trials: that are owed.
        max_attempts: of each trial.
        forecasts: by trial id, expected durations; trials without one are begun last, in the
            order in which they were declared.
        shared: builds that are owed, too, and the trials that wait for them.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        *,
        max_attempts: int,
        forecasts: Mapping[str, Forecast] | None = None,
        shared: SharedBuilds | None = None,
    ) -> None:
        shared = shared or SharedBuilds()
        self._max_attempts = max_attempts
        self._forecasts = {**(forecasts or {}), **shared.forecasts}
        self._owed = {trial.trial_id: trial for trial in (*shared.builds, *trials)}
        self._positions = {trial_id: position for position, trial_id in enumerate(self._owed)}
        self._unreported = Counter(hardware_kind(trial) for trial in self._owed.values())
        self._queues = {kind: ReadyQueue() for kind in self._unreported}
        self._after = {trial_id: {*builds} for trial_id, builds in shared.after.items()}
        self._waiting_for: dict[str, list[str]] = {}
        for trial_id, builds in shared.after.items():
            for build_id in builds:
                self._waiting_for.setdefault(build_id, []).append(trial_id)
        self._held: dict[str, deque[TaskAssignment]] = {}
        self._building: dict[str, TaskAssignment] = {}
        self._assigned = 0
        self._uncounted: Counter[str] = Counter()
        for trial in self._owed.values():
            if not self._after.get(trial.trial_id):
                self._enqueue(trial, 1)

    def done(self) -> bool:
        """Whether every trial has its result."""
        return not self._owed

    def owes(self, trial_id: str) -> bool:
        """Whether this trial's result is still to come."""
        return trial_id in self._owed

    def queued(self) -> dict[str, int]:
        """Number of trials without a result that could be assigned now, by kind."""
        return {kind: len(self._queues[kind]) for kind, owed in self._unreported.items() if owed}

    def held(self, agent: str) -> Sequence[TaskAssignment]:
        """The assignments of an agent, which works on the first."""
        return self._held.get(agent, ())

    def assign(self, agent: str, kind: str) -> TaskAssignment | None:
        """The next trial of this kind, now held by the agent; None if none is queued."""
        queue = self._queues.get(kind)
        queued = queue.pop() if queue else None
        if queued is None:
            return None
        self._assigned += 1
        assignment = TaskAssignment(
            number=self._assigned, trial=queued.trial, attempt=queued.attempt, agent=agent
        )
        self._held.setdefault(agent, deque()).append(assignment)
        self._building[assignment.trial.trial_id] = assignment
        return assignment

    def expected_s(self, trial: Trial) -> float:
        """Seconds of its measurement and of the builds that are still missing."""
        forecast = self._forecast(trial)
        return forecast.measure_s + self._queue(trial).missing_s(forecast.builds)

    def queued_s(self, kind: str) -> float:
        """Expected seconds of all queued trials of a kind, each build counted once."""
        return self._queues[kind].expected_s()

    def decline(self, assignment: TaskAssignment, failure: Failure) -> TrialResult:
        """The failure of a trial that its agent must not begin."""
        self._release(assignment)
        self._held[assignment.agent].remove(assignment)
        return self._fail(assignment.trial, assignment.attempt, failure)

    def end(self, failure: Failure) -> tuple[TrialResult, ...]:
        """The same failure of every trial whose result is still to come."""
        self._held.clear()
        self._building.clear()
        owed = list(self._owed.values())
        for queue in self._queues.values():
            queue.clear()
        self._waiting_for.clear()
        return tuple(self._fail(trial, 1, failure) for trial in owed)

    def mark_built(self, trial_id: str) -> None:
        """The artifacts of an assigned trial are built: no other trial waits for them."""
        assignment = self._building.pop(trial_id, None)
        if assignment is not None:
            self._queue(assignment.trial).mark_built(self._forecast(assignment.trial).builds)

    def finish(self, assignment: TaskAssignment, result: TrialResult) -> TrialResult | None:
        """The result if it counts; None for one that comes too late."""
        if assignment not in self.held(assignment.agent):
            return None
        if result.build is not None:
            self.mark_built(assignment.trial.trial_id)
        self._release(assignment)
        self._held[assignment.agent].remove(assignment)
        if result.attempt != assignment.attempt:
            result = dataclasses.replace(result, attempt=assignment.attempt)
        return self._report(assignment.trial, result)

    def fault(self, assignment: TaskAssignment, reason: str) -> Loss:
        """An assignment came back without a result although its agent lives."""
        if assignment not in self.held(assignment.agent):
            return Loss()
        self._release(assignment)
        self._held[assignment.agent].remove(assignment)
        return self._retry(assignment, kind="agent_failed", reason=reason)

    def lose(self, agent: str, reason: str, *, uncounted: bool = False) -> Loss:
        """An agent is gone: only the trial it worked on has used up an attempt.

        Args:
            agent: whose assignments are lost.
            reason: for people.
            uncounted: it was released or its node was interrupted: not even that one has.
        """
        held = list(self._held.pop(agent, ()))
        for assignment in held:
            self._release(assignment)
        for assignment in reversed(held[1:]):
            self._enqueue(assignment.trial, assignment.attempt)
        if not held:
            return Loss()
        trial, attempt = held[0].trial, held[0].attempt
        if uncounted and self._uncounted[trial.trial_id] < MAX_UNCOUNTED:
            self._uncounted[trial.trial_id] += 1
            self._enqueue(trial, attempt)
            return Loss(retried=((trial, attempt),))
        return self._retry(held[0], kind="node_lost", reason=reason)

    def give_up(
        self, kind: str, reason: str, remedy: str, *, failure: str = "no_node"
    ) -> tuple[TrialResult, ...]:
        """Failures of all queued trials of a kind, for which no node comes."""
        results = []
        for queued in self._queues[kind].clear():
            cause, message = failure, reason
            if queued.attempt > 1:
                lost = f"Lost its node in attempt {queued.attempt - 1}, and no other took over"
                cause, message = "node_lost", f"{lost}: {reason}"
            why = Failure(stage="schedule", kind=cause, message=message, remedy=remedy)
            results.append(self._fail(queued.trial, queued.attempt, why))
        return tuple(results)

    def _retry(self, assignment: TaskAssignment, *, kind: str, reason: str) -> Loss:
        trial, attempt = assignment.trial, assignment.attempt
        if attempt < self._max_attempts:
            self._enqueue(trial, attempt + 1)
            return Loss(retried=((trial, attempt + 1),))
        failure = Failure(
            stage="schedule",
            kind=kind,
            message=f"Attempt {attempt} of {self._max_attempts} ended without a result: {reason}",
            remedy="Check that node's memory and Ray log; then run the sweep again with resume=.",
        )
        return Loss(results=(self._fail(trial, attempt, failure),))

    def _enqueue(self, trial: Trial, attempt: int) -> None:
        self._queue(trial).push(
            QueuedTrial(
                trial=trial,
                attempt=attempt,
                forecast=self._forecast(trial),
                position=self._positions[trial.trial_id],
            )
        )

    def _release(self, assignment: TaskAssignment) -> None:
        """Release the artifacts that the agent was building, if any."""
        if self._building.get(assignment.trial.trial_id) == assignment:
            del self._building[assignment.trial.trial_id]
            self._queue(assignment.trial).release(self._forecast(assignment.trial).builds)

    def _queue(self, trial: Trial) -> ReadyQueue:
        return self._queues[hardware_kind(trial)]

    def _forecast(self, trial: Trial) -> Forecast:
        return self._forecasts.get(trial.trial_id, UNKNOWN)

    def _fail(self, trial: Trial, attempt: int, failure: Failure) -> TrialResult:
        return self._report(
            trial,
            TrialResult(
                trial_id=trial.trial_id,
                labels=trial.labels,
                outcome=Outcome.FAILED,
                failure=failure,
                attempt=attempt,
                baseline_id=trial.baseline_id,
                ended_at=datetime.now(UTC).isoformat(),
            ),
        )

    def _report(self, trial: Trial, result: TrialResult) -> TrialResult:
        del self._owed[trial.trial_id]
        self._unreported[hardware_kind(trial)] -= 1
        for trial_id in self._waiting_for.pop(trial.trial_id, ()):
            self._after[trial_id].discard(trial.trial_id)
            if not self._after[trial_id]:  # that was the last build it waited for
                self._enqueue(self._owed[trial_id], 1)
        return result


def hardware_kind(trial: Trial) -> str:
    """The kind of node a trial must run on."""
    return trial.labels[KIND_LABEL]
