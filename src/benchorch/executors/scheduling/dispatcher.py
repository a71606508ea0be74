"""Keeps every agent of a fleet supplied with trials of its kind until each trial has a result.

Agents may join late, vanish, respond twice or never come at all. The loop ends anyway, because
waiting for agents is limited and every loss uses up an attempt.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event
from benchorch.domain.spending import Spending
from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.assignments import (
    Loss,
    TaskAssignment,
    TaskAssignments,
    hardware_kind,
)
from benchorch.executors.scheduling.cluster_file import Placement
from benchorch.executors.scheduling.queue import Forecast, SharedBuilds
from benchorch.executors.scheduling.spending import SpendingMeter
from benchorch.interfaces.executor import Emit
from benchorch.units import format_seconds

POLL_S = 1.0
"""How often the fleet is polled when nothing happens."""

PREFETCH_S = 0.01
"""About this much work is assigned to an agent in advance, so that it need not wait for the next
assignment; a trial that takes longer is never kept from an idle agent."""

MAX_PREFETCH = 63
"""So many results of no-op trials share an fsync; with 15 they take a fifth longer."""

ANNOUNCE_AFTER_S = 10.0
"""Waiting for a hardware kind is reported after this time."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """An agent is ready for trials of any of these kinds, on one slot of a machine."""

    agent: str
    kinds: tuple[str, ...]
    machine: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEvents:
    """Events of running trials."""

    events: tuple[Event, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """An assignment's result, the events before it, and the seconds the agent was busy with it."""

    assignment: TaskAssignment
    result: TrialResult
    events: tuple[Event, ...]
    busy_s: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Faulted:
    """An assignment came back without a result; its agent lives."""

    assignment: TaskAssignment
    reason: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """An agent is gone, with all it held.

    Attributes:
        uncounted: nothing failed: it was released, or its node was interrupted.
    """

    agent: str
    reason: str
    uncounted: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """An agent's node will be interrupted: it may finish what it holds, and gets no more."""

    agent: str


Message: TypeAlias = Joined | TrialEvents | Finished | Faulted | Lost | Leaving


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NoCapacity:
    """Why there is no agent of a kind.

    Attributes:
        failure: the class of the failures that follow: ``no_node`` or ``no_capacity``.
        reason: one sentence without its full stop.
        remedy: what would bring one.
    """

    failure: str
    reason: str
    remedy: str


class Fleet(ABC):
    """Agents on nodes, one per measuring slot."""

    @abstractmethod
    def request(self, queued: Mapping[str, int]) -> None:
        """Start agents on the slots of these kinds, release those of other kinds.

        Args:
            queued: of each kind with a trial whose result is to come, how many trials wait
                for an agent; 0 where all are assigned.
        """

    def machines(self) -> Mapping[Placement, int]:
        """Launched machines that are billed now, booting ones included."""
        return {}

    def terminate(self) -> None:
        """End the launched machines at once, whatever they do."""
        return

    @abstractmethod
    def slots(self, kind: str) -> int:
        """How many measuring slots of this kind living nodes announce."""

    def slots_each(self, kind: str) -> int:
        """How many trials a launched machine of this kind measures side by side."""
        del kind
        return 1

    def is_taken(self, kind: str) -> bool:
        """Whether other sweeps use all machines of this kind that there may be."""
        del kind
        return False

    def cannot_launch(self, kind: str) -> bool:
        """Whether no agent of this kind will come, however long it is waited for."""
        del kind
        return False

    @abstractmethod
    def no_capacity(self, kind: str) -> NoCapacity:
        """Why there is no agent of this kind, and what would bring one."""

    @abstractmethod
    def send(self, assignment: TaskAssignment) -> None:
        """Hand an assignment to its agent; an agent works through its assignments in order."""

    @abstractmethod
    def receive(self, timeout_s: float) -> Sequence[Message]:
        """New messages; waits for the first one, but no longer than this."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """Limits after which a trial is not retried.

    Attributes:
        max_attempts: of each trial.
        wait_s: how long to wait for a node of a kind, once other sweeps do not use all of them.
        start_s: how long an agent may take to start on a node.
    """

    max_attempts: int
    wait_s: float
    start_s: float


def dispatch(
    trials: Sequence[Trial],
    fleet: Fleet,
    emit: Emit,
    limits: RetryLimits,
    now_s: Callable[[], float],
    forecasts: Mapping[str, Forecast] | None = None,
    shared: SharedBuilds | None = None,
    spending: SpendingMeter | None = None,
) -> Iterator[Sequence[TrialResult]]:
    """Exactly one result per trial, those that came at the same time together.

    What their agents do next is assigned before: while the results are stored, agents work.

    Args:
        trials: to run, in the order of declaration.
        fleet: where they run.
        emit: receives the trials' events, and every retry.
        limits: when to stop trying.
        now_s: a monotonic time in seconds.
        forecasts: by trial id, expected durations: the longest chain is begun first.
        shared: builds that are made before some of the trials; they have no result.
        spending: meters the fleet's machines and keeps the budget.
    """
    shared = shared or SharedBuilds()
    assignments = TaskAssignments(
        trials, max_attempts=limits.max_attempts, forecasts=forecasts, shared=shared
    )
    builds = _BuildEvents(shared, emit)
    meter = spending or SpendingMeter()
    sweep = _Sweep((*shared.builds, *trials), assignments, fleet, builds.emit, limits, meter)
    for results in sweep.run(now_s):
        own = []
        for result in results:
            if builds.include(result.trial_id):
                builds.emit_end(result)
            else:
                own.append(result)
        if len(own) < len(results):
            sweep.supply_idle()
        if own:
            yield own


@final
class _BuildEvents:
    """Turns events of shared builds into events of the first trial that waits for each."""

    def __init__(self, shared: SharedBuilds, emit: Emit) -> None:
        self._builds = {build.trial_id: build for build in shared.builds}
        self._first: dict[str, str] = {}
        self._emit = emit
        for trial_id, builds in shared.after.items():
            for build in builds:
                self._first.setdefault(build, trial_id)

    def include(self, trial_id: str) -> bool:
        """Whether that is a shared build."""
        return trial_id in self._builds

    def emit(self, event: Event) -> None:
        """Pass on an event, a build's as that of the trial that waits for it."""
        if self.include(event.trial_id):
            self._emit_build(event.trial_id, f"{event.stage} {event.message}".rstrip())
        else:
            self._emit(event)

    def emit_end(self, result: TrialResult) -> None:
        """Report how a build ended; a failure costs no more than time."""
        failure = result.failure
        text = f"not built ahead ({failure.kind}: {failure.message})" if failure else "built"
        self._emit_build(result.trial_id, text)

    def _emit_build(self, build_id: str, text: str) -> None:
        where = hardware_kind(self._builds[build_id])
        message = f"for a build on {where}: {text}"
        self._emit(Event(trial_id=self._first[build_id], stage="wait", message=message))


@final
@dataclass(slots=True)
class _Sweep:
    """The loop's state besides the assignments.

    Attributes:
        declined: results of trials that the budget does not allow, to be returned next.
        kinds: of each living agent.
        machines: of each agent.
        prefetch: how many assignments an agent gets beyond the one it works on.
        idle: agents with too few assignments, the longest waiting first.
        n_agents: of each kind.
        unserved_since_s: since when a kind has had no agent.
        slots_since_s: since when such a kind has had a node.
        announced: kinds for which waiting has been reported.
    """

    trials: Sequence[Trial]
    assignments: TaskAssignments
    fleet: Fleet
    emit: Emit
    limits: RetryLimits
    spending: SpendingMeter
    declined: list[TrialResult] = field(default_factory=list)
    kinds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    machines: dict[str, str] = field(default_factory=dict)
    prefetch: dict[str, int] = field(default_factory=dict)
    idle: dict[str, None] = field(default_factory=dict)
    n_agents: Counter[str] = field(default_factory=Counter)
    unserved_since_s: dict[str, float] = field(default_factory=dict)
    slots_since_s: dict[str, float] = field(default_factory=dict)
    announced: set[str] = field(default_factory=set)

    def run(self, now_s: Callable[[], float]) -> Iterator[Sequence[TrialResult]]:
        """Every result, in groups that are never empty, until none is owed."""
        while self.declined or not self.assignments.done():
            queued = self.assignments.queued()
            self.fleet.request(self._affordable(queued))
            results = [*self._declined(), *self.keep_budget(now_s(), queued)]
            results += self.give_up_overdue(now_s(), self.assignments.queued())
            if results:
                yield results
            if not self.assignments.done():
                yield from self._received()
        if self.spending.cannot_idle():
            self.fleet.terminate()
        self._report_spending(self.spending.last_report())

    def _received(self) -> Iterator[Sequence[TrialResult]]:
        """The results of the messages that are there, as one group."""
        results: list[TrialResult] = []
        try:
            for message in self.fleet.receive(POLL_S):
                results += self.handle(message)
            results += self._declined()
        finally:  # an error is raised once what came before it is stored
            if results:
                yield results

    def keep_budget(self, now_s: float, queued: Mapping[str, int]) -> Iterator[TrialResult]:
        """Results for what the budget no longer allows; ends the machines once it is reached."""
        self.spending.observe(now_s, self.fleet.machines())
        self._report_spending(self.spending.report())
        reached = self.spending.reached()
        if reached is not None:
            self.fleet.terminate()
            yield from self.assignments.end(reached)
            return
        for kind in [kind for kind, count in queued.items() if count and not self.n_agents[kind]]:
            no = self.spending.no_launch(kind)
            if no is not None:
                yield from self.assignments.give_up(kind, no.message, no.remedy, failure=no.kind)

    def _report_spending(self, spending: Spending | None) -> None:
        if spending is not None:
            self.emit(Event.of_spending(spending))

    def _affordable(self, queued: Mapping[str, int]) -> Mapping[str, int]:
        """Number of queued trials per kind for which the budget allows a machine."""
        if not self.spending.is_limited:
            return queued
        queued_s = {kind: self.assignments.queued_s(kind) for kind in queued}
        slots = {kind: self.fleet.slots_each(kind) for kind in queued}
        return self.spending.affordable(queued, queued_s, self.n_agents, slots)

    def _declined(self) -> Iterator[TrialResult]:
        yield from self.declined
        self.declined.clear()

    def supply_idle(self) -> None:
        """Assign trials that could not be assigned before."""
        for agent in list(self.idle):
            self.supply(agent)

    def supply(self, agent: str) -> None:
        """Assign trials to one agent until it has enough; a lost one gets none."""
        if agent not in self.kinds:
            return
        for kind in self.kinds[agent]:
            while len(self.assignments.held(agent)) <= self.prefetch[agent]:
                assignment = self.assignments.assign(agent, kind)
                if assignment is None:
                    break
                self._begin(assignment, kind)
        if len(self.assignments.held(agent)) > self.prefetch[agent]:
            self.idle.pop(agent, None)
        else:
            self.idle[agent] = None

    def _begin(self, assignment: TaskAssignment, kind: str) -> None:
        """Send an assignment to its agent, if the budget allows that."""
        trial = assignment.trial
        expected_s = self.assignments.expected_s(trial)
        machine = self.machines[assignment.agent]
        no = self.spending.declined(kind, expected_s, machine)
        if no is not None:
            self.declined.append(self.assignments.decline(assignment, no))
            return
        self.spending.begin(trial.trial_id, kind, expected_s, machine)
        self.fleet.send(assignment)

    def handle(self, message: Message) -> Iterator[TrialResult]:
        """The results that a message leads to, mostly none or one."""
        match message:
            case Joined(agent=agent, kinds=kinds, machine=machine):
                self.kinds[agent], self.prefetch[agent] = kinds, 0
                self.machines[agent] = machine or agent
                self.n_agents.update(kinds)
                self.announced -= {*kinds}
                for kind in kinds:
                    self._stop_waiting(kind)
                self.supply(agent)
            case TrialEvents(events=events):
                self._emit_all(events)
            case Finished(assignment=assignment, result=result, events=events, busy_s=busy_s):
                self._emit_all(events)
                agent = assignment.agent
                self.prefetch[agent] = min(MAX_PREFETCH, int(PREFETCH_S / max(busy_s, 1e-6)))
                counted = self.assignments.finish(assignment, result)
                self.spending.end(assignment.trial.trial_id)
                self.supply(agent)  # before the caller is busy with the result
                if counted is not None:
                    yield counted
            case Faulted(assignment=assignment, reason=reason):
                self.spending.end(assignment.trial.trial_id)
                yield from self._report(self.assignments.fault(assignment, reason), reason)
                self.supply(assignment.agent)
            case Leaving(agent=agent):
                self._remove(agent)
            case Lost(agent=agent, reason=reason, uncounted=uncounted):
                self._remove(agent)
                for assignment in self.assignments.held(agent):
                    self.spending.end(assignment.trial.trial_id)
                loss = self.assignments.lose(agent, reason, uncounted=uncounted)
                yield from self._report(loss, reason)

    def _remove(self, agent: str) -> None:
        """Assign nothing more to an agent."""
        self.n_agents.subtract(self.kinds.pop(agent, ()))
        self.idle.pop(agent, None)

    def give_up_overdue(self, now_s: float, queued: Mapping[str, int]) -> Iterator[TrialResult]:
        """Results for trials whose kind has had no agent for too long."""
        unserved = {kind for kind in queued if not self.n_agents[kind] and queued[kind]}
        for kind in self.unserved_since_s.keys() - unserved:
            self._stop_waiting(kind)
        for kind in sorted(unserved):
            waited_s, limit_s = self._waited(kind, now_s)
            if waited_s >= limit_s or self.fleet.cannot_launch(kind):
                why = self.fleet.no_capacity(kind)
                reason = f"{why.reason} (waited {waited_s:.0f} s)"
                yield from self.assignments.give_up(kind, reason, why.remedy, failure=why.failure)
            elif kind not in self.announced and (
                waited_s >= ANNOUNCE_AFTER_S or self.fleet.is_taken(kind)
            ):
                self.announced.add(kind)
                self._announce_waiting(kind, limit_s)

    def _stop_waiting(self, kind: str) -> None:
        self.unserved_since_s.pop(kind, None)
        self.slots_since_s.pop(kind, None)

    def _announce_waiting(self, kind: str, limit_s: float) -> None:
        """Tell the user why nothing happens, with the first trial that waits."""
        owed = (trial for trial in self.trials if self.assignments.owes(trial.trial_id))
        first = next(trial for trial in owed if hardware_kind(trial) == kind)
        taken = self.fleet.is_taken(kind)
        limit = "until another sweep ends" if taken else f"at most {format_seconds(limit_s)}"
        message = f"for a free {kind}, {limit}"
        self.emit(Event(trial_id=first.trial_id, stage="wait", message=message))

    def _waited(self, kind: str, now_s: float) -> tuple[float, float]:
        """The wait for this kind and its limit: without a node, or with one but no agent on it."""
        if self.fleet.is_taken(kind):
            self.unserved_since_s[kind] = now_s
        unserved_s = now_s - self.unserved_since_s.setdefault(kind, now_s)
        if not self.fleet.slots(kind):
            self.slots_since_s.pop(kind, None)
            return unserved_s, self.limits.wait_s
        return now_s - self.slots_since_s.setdefault(kind, now_s), self.limits.start_s

    def _emit_all(self, events: Sequence[Event]) -> None:
        for event in events:
            if self.assignments.owes(event.trial_id):
                if event.stage != "build":
                    self.assignments.mark_built(event.trial_id)
                self.emit(event)

    def _report(self, loss: Loss, reason: str) -> Iterator[TrialResult]:
        for trial, attempt in loss.retried:
            message = f"attempt {attempt} of {self.limits.max_attempts}: {reason}"
            self.emit(Event(trial_id=trial.trial_id, stage="retry", message=message))
        self.supply_idle()  # lost trials, and those that waited for them, are queued again
        yield from loss.results
