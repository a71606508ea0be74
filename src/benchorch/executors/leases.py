"""Which trials are still owed, who holds them, and what becomes of them when a holder is lost.

Pure bookkeeping: no clock, no network. Its promises hold whatever the cluster does: exactly one
result per trial, a trial only ever goes to a holder of its own kind, and every loss uses up an
attempt, so the book always closes.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import final

from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.domain.trial import Trial

KIND_LABEL = "hardware_kind"
EXPECTED_LABEL = "expected_s"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
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
    """The state of one sweep; lives as long as the sweep."""

    def __init__(self, trials: Sequence[Trial], *, max_attempts: int) -> None:
        self._max_attempts = max_attempts
        self._owed = {trial.trial_id: trial for trial in trials}
        self._unreported = Counter(hardware_kind(trial) for trial in self._owed.values())
        self._pending: dict[str, deque[tuple[Trial, int]]] = {}
        self._held: dict[str, deque[Lease]] = {}
        self._leased = 0
        for trial in sorted(self._owed.values(), key=_longest_first):
            self._pending.setdefault(hardware_kind(trial), deque()).append((trial, 1))

    def done(self) -> bool:
        """Whether every trial has its result."""
        return not self._owed

    def owes(self, trial_id: str) -> bool:
        """Whether this trial's result is still to come."""
        return trial_id in self._owed

    def kinds(self) -> frozenset[str]:
        """Kinds with a trial whose result is still to come."""
        return frozenset(kind for kind, count in self._unreported.items() if count)

    def waiting(self, kind: str) -> bool:
        """Whether a trial of this kind has no holder."""
        return bool(self._pending.get(kind))

    def held(self, agent: str) -> Sequence[Lease]:
        """What an agent holds; it works on the first."""
        return self._held.get(agent, ())

    def lease(self, agent: str, kind: str) -> Lease | None:
        """The next trial of this kind, now held by the agent; None if none waits."""
        if not self.waiting(kind):
            return None
        trial, attempt = self._pending[kind].popleft()
        self._leased += 1
        lease = Lease(number=self._leased, trial=trial, attempt=attempt, agent=agent)
        self._held.setdefault(agent, deque()).append(lease)
        return lease

    def finish(self, lease: Lease, result: TrialResult) -> TrialResult | None:
        """The result if it is the one that counts; None for one that comes too late."""
        if lease not in self.held(lease.agent):
            return None
        self._held[lease.agent].remove(lease)
        return self._report(lease.trial, dataclasses.replace(result, attempt=lease.attempt))

    def fault(self, lease: Lease, reason: str) -> Loss:
        """One lease came back without a result although its agent lives."""
        if lease not in self.held(lease.agent):
            return Loss()
        self._held[lease.agent].remove(lease)
        return self._again(lease, kind="agent_failed", reason=reason)

    def lose(self, agent: str, reason: str) -> Loss:
        """An agent is gone: only the lease it worked on has used up an attempt."""
        held = list(self._held.pop(agent, ()))
        for lease in reversed(held[1:]):
            self._give_back(lease.trial, lease.attempt)
        return self._again(held[0], kind="node_lost", reason=reason) if held else Loss()

    def give_up(self, kind: str, reason: str, remedy: str) -> tuple[TrialResult, ...]:
        """Results of all trials of a kind that nobody holds and nobody will take."""
        waiting = self._pending.pop(kind, deque())
        return tuple(
            self._report(trial, _unrun(trial, attempt, _nobody(attempt, reason, remedy)))
            for trial, attempt in waiting
        )

    def _again(self, lease: Lease, *, kind: str, reason: str) -> Loss:
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
        self._pending.setdefault(hardware_kind(trial), deque()).appendleft((trial, attempt))

    def _report(self, trial: Trial, result: TrialResult) -> TrialResult:
        del self._owed[trial.trial_id]
        self._unreported[hardware_kind(trial)] -= 1
        return result


def hardware_kind(trial: Trial) -> str:
    """The kind of node a trial must run on."""
    return trial.labels[KIND_LABEL]


def _longest_first(trial: Trial) -> float:
    """Sorts by expected seconds, longest first; trials of unknown length keep their order."""
    return -float(trial.labels.get(EXPECTED_LABEL, 0.0))


def _nobody(attempt: int, reason: str, remedy: str) -> Failure:
    """Says whether a trial never had a node or lost the ones it had."""
    if attempt == 1:
        return Failure(stage="schedule", kind="no_node", message=reason, remedy=remedy)
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
