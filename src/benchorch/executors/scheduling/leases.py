"""Which trials are still owed, who holds them, and what becomes of them when a holder is lost.

Pure bookkeeping: no clock, no network. Its promises hold whatever the cluster does: exactly one
result per trial, a trial only ever goes to a holder of its own kind, and every loss uses up an
attempt or one of a few excuses, so the book always closes.
"""

from __future__ import annotations

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

MAX_EXCUSES = 10
"""So often a trial may lose its machine by notice; from then on that uses up its attempts too."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLease:
    """One attempt at a trial, held by one agent; a number tells it from every other lease."""

    number: int
    trial: Trial
    attempt: int
    agent: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What a loss leads to.

    Attributes:
        results: trials that have used up their attempts.
        retried: trials that go back to be leased again, with the attempt that comes next.
    """

    results: tuple[TrialResult, ...] = ()
    retried: tuple[tuple[Trial, int], ...] = ()


@final
class LeaseBook:
    """The state of one sweep; lives as long as the sweep.

    Args:
        trials: what is owed.
        max_attempts: how often each is begun.
        forecasts: by trial id, what they are expected to take; those without one are begun last,
            in the order in which they were declared.
        ahead: builds that are owed, too, and which trials wait until those are over.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        *,
        max_attempts: int,
        forecasts: Mapping[str, Forecast] | None = None,
        ahead: SharedBuilds | None = None,
    ) -> None:
        ahead = ahead or SharedBuilds()
        self._max_attempts = max_attempts
        self._forecasts = {**(forecasts or {}), **ahead.forecasts}
        self._owed = {trial.trial_id: trial for trial in (*ahead.builds, *trials)}
        self._positions = {trial_id: position for position, trial_id in enumerate(self._owed)}
        self._unreported = Counter(hardware_kind(trial) for trial in self._owed.values())
        self._kinds = frozenset(self._unreported)
        self._agendas = {kind: ReadyQueue() for kind in self._kinds}
        self._after = {trial_id: {*builds} for trial_id, builds in ahead.after.items()}
        self._waiting_for: dict[str, list[str]] = {}
        for trial_id, builds in ahead.after.items():
            for build_id in builds:
                self._waiting_for.setdefault(build_id, []).append(trial_id)
        self._held: dict[str, deque[TrialLease]] = {}
        self._building: dict[str, TrialLease] = {}
        self._leased = 0
        self._excused: Counter[str] = Counter()
        for trial in self._owed.values():
            if not self._after.get(trial.trial_id):
                self._give_back(trial, 1)

    def done(self) -> bool:
        """Whether every trial has its result."""
        return not self._owed

    def owes(self, trial_id: str) -> bool:
        """Whether this trial's result is still to come."""
        return trial_id in self._owed

    def kinds(self) -> frozenset[str]:
        """Kinds with a trial whose result is still to come."""
        return self._kinds

    def waiting(self) -> dict[str, int]:
        """Of each of `kinds`, how many trials could be leased now."""
        return {kind: len(self._agendas[kind]) for kind in self._kinds}

    def held(self, agent: str) -> Sequence[TrialLease]:
        """What an agent holds; it works on the first."""
        return self._held.get(agent, ())

    def lease(self, agent: str, kind: str) -> TrialLease | None:
        """The next trial of this kind, now held by the agent; None if none waits."""
        agenda = self._agendas.get(kind)
        waiting = agenda.take() if agenda else None
        if waiting is None:
            return None
        self._leased += 1
        lease = TrialLease(
            number=self._leased, trial=waiting.trial, attempt=waiting.attempt, agent=agent
        )
        self._held.setdefault(agent, deque()).append(lease)
        self._building[lease.trial.trial_id] = lease
        return lease

    def built(self, trial_id: str) -> None:
        """A trial that is held has everything it needs: others need not wait for that."""
        lease = self._building.pop(trial_id, None)
        if lease is not None:
            self._agenda(lease.trial).built(self._forecast(lease.trial).builds)

    def finish(self, lease: TrialLease, result: TrialResult) -> TrialResult | None:
        """The result if it is the one that counts; None for one that comes too late."""
        if lease not in self.held(lease.agent):
            return None
        if result.build is not None:
            self.built(lease.trial.trial_id)
        self._let_go(lease)
        self._held[lease.agent].remove(lease)
        if result.attempt != lease.attempt:
            result = dataclasses.replace(result, attempt=lease.attempt)
        return self._report(lease.trial, result)

    def fault(self, lease: TrialLease, reason: str) -> Loss:
        """One lease came back without a result although its agent lives."""
        if lease not in self.held(lease.agent):
            return Loss()
        self._let_go(lease)
        self._held[lease.agent].remove(lease)
        return self._again(lease, kind="agent_failed", reason=reason)

    def lose(self, agent: str, reason: str, *, excused: bool = False) -> Loss:
        """An agent is gone: only the lease it worked on has used up an attempt.

        Args:
            agent: that held what is now lost.
            reason: for people.
            excused: it was let go or its machine was called back: not even that one has.
        """
        held = list(self._held.pop(agent, ()))
        for lease in held:
            self._let_go(lease)
        for lease in reversed(held[1:]):
            self._give_back(lease.trial, lease.attempt)
        if not held:
            return Loss()
        first = held[0]
        if excused and self._excused[first.trial.trial_id] < MAX_EXCUSES:
            self._excused[first.trial.trial_id] += 1
            self._give_back(first.trial, first.attempt)
            return Loss(retried=((first.trial, first.attempt),))
        return self._again(first, kind="node_lost", reason=reason)

    def give_up(
        self, kind: str, reason: str, remedy: str, *, failure: str = "no_node"
    ) -> tuple[TrialResult, ...]:
        """Results of all trials of a kind that nobody holds and nobody will take."""
        return tuple(
            self._report(
                one.trial,
                _unrun(one.trial, one.attempt, _nobody(one.attempt, reason, remedy, failure)),
            )
            for one in self._agendas[kind].clear()
        )

    def _again(self, lease: TrialLease, *, kind: str, reason: str) -> Loss:
        if lease.attempt < self._max_attempts:
            self._give_back(lease.trial, lease.attempt + 1)
            return Loss(retried=((lease.trial, lease.attempt + 1),))
        failure = Failure(
            stage="schedule",
            kind=kind,
            message=f"Attempt {lease.attempt} of {self._max_attempts} ended without a result: "
            f"{reason}",
            remedy="Look at that node's memory and Ray log; then run the sweep again with resume=.",
        )
        return Loss(
            results=(self._report(lease.trial, _unrun(lease.trial, lease.attempt, failure)),)
        )

    def _give_back(self, trial: Trial, attempt: int) -> None:
        self._agenda(trial).add(
            QueuedTrial(
                trial=trial,
                attempt=attempt,
                forecast=self._forecast(trial),
                position=self._positions[trial.trial_id],
            )
        )

    def _let_go(self, lease: TrialLease) -> None:
        """Nobody builds for this lease any more, if anybody still did."""
        if self._building.get(lease.trial.trial_id) == lease:
            del self._building[lease.trial.trial_id]
            self._agenda(lease.trial).gave_up(self._forecast(lease.trial).builds)

    def _agenda(self, trial: Trial) -> ReadyQueue:
        return self._agendas[hardware_kind(trial)]

    def _forecast(self, trial: Trial) -> Forecast:
        return self._forecasts.get(trial.trial_id, UNKNOWN)

    def _report(self, trial: Trial, result: TrialResult) -> TrialResult:
        del self._owed[trial.trial_id]
        kind = hardware_kind(trial)
        self._unreported[kind] -= 1
        if not self._unreported[kind]:
            self._kinds -= {kind}
        self._go_on_after(trial.trial_id)
        return result

    def _go_on_after(self, build_id: str) -> None:
        """Trials that have waited for this build, and for no other one, can be leased now."""
        for trial_id in self._waiting_for.pop(build_id, ()):
            self._after[trial_id].discard(build_id)
            if not self._after[trial_id]:
                self._give_back(self._owed[trial_id], 1)


def hardware_kind(trial: Trial) -> str:
    """The kind of node a trial must run on."""
    return trial.labels[KIND_LABEL]


def _nobody(attempt: int, reason: str, remedy: str, failure: str) -> Failure:
    """Says whether a trial never had a node or lost the ones it had."""
    if attempt == 1:
        return Failure(stage="schedule", kind=failure, message=reason, remedy=remedy)
    lost = f"Lost its node in attempt {attempt - 1}, and none took it over: {reason}"
    return Failure(stage="schedule", kind="node_lost", message=lost, remedy=remedy)


def _unrun(trial: Trial, attempt: int, failure: Failure) -> TrialResult:
    return TrialResult(
        trial_id=trial.trial_id,
        labels=trial.labels,
        outcome=Outcome.FAILED,
        failure=failure,
        attempt=attempt,
        baseline_id=trial.baseline_id,
        ended_at=datetime.now(UTC).isoformat(),
    )
