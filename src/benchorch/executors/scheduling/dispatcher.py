"""Keeps every agent of a fleet supplied with trials of its kind until each trial has a result.

The fleet may do anything: agents join late, vanish, answer twice or never come at all. The loop
ends all the same, because waiting for agents is limited and every loss uses up an attempt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.leases import LeaseBook, Loss, TrialLease, hardware_kind
from benchorch.executors.scheduling.queue import Forecast, SharedBuilds
from benchorch.interfaces.executor import Emit
from benchorch.units import format_seconds

LOOK_S = 1.0
"""How often the fleet is looked at when nothing happens."""

AHEAD_S = 0.01
"""An agent is given about this much work in advance, so that it need not wait for the next lease;
a trial that takes longer is never kept from an idle agent."""

SILENT_S = 10.0
"""So long nobody is told that a kind of hardware is waited for."""

MAX_AHEAD = 15
"""More leases in advance no longer make no-op trials faster."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """An agent is ready for trials of any of these kinds."""

    agent: str
    kinds: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEvents:
    """What trials said while they run."""

    events: tuple[Event, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A lease's result, what was said before it, and the seconds the agent was busy with it."""

    lease: TrialLease
    result: TrialResult
    events: tuple[Event, ...]
    busy_s: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Faulted:
    """A lease came back without a result; its agent lives."""

    lease: TrialLease
    reason: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """An agent is gone, with all it held.

    Attributes:
        excused: nothing went wrong: it was let go, or its machine was called back.
    """

    agent: str
    reason: str
    excused: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """An agent's machine has been called back: it may finish what it holds, and gets no more."""

    agent: str
    reason: str


Message: TypeAlias = Joined | TrialEvents | Ended | Faulted | Lost | Leaving


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NoCapacity:
    """Why no agent of a kind is there.

    Attributes:
        failure: the class of what follows from it: ``no_node`` or ``no_capacity``.
        reason: one sentence without its full stop.
        remedy: what would bring one.
    """

    failure: str
    reason: str
    remedy: str


class Fleet(ABC):
    """Agents on nodes, one per measuring slot."""

    @abstractmethod
    def want(self, waiting: Mapping[str, int]) -> None:
        """Bring agents up on the slots of these kinds, let go of those of other kinds.

        Args:
            waiting: of each kind with a trial whose result is to come, how many trials wait
                for an agent; 0 where all are held.
        """

    @abstractmethod
    def slots(self, kind: str) -> int:
        """How many measuring slots of this kind living nodes announce."""

    def is_hopeless(self, kind: str) -> bool:
        """Whether waiting for an agent of this kind is known to be in vain."""
        del kind
        return False

    @abstractmethod
    def vacancy(self, kind: str) -> NoCapacity:
        """Why no agent of this kind is there, and what would bring one."""

    @abstractmethod
    def send(self, lease: TrialLease) -> None:
        """Hand a lease to its agent; an agent works through its leases in order."""

    @abstractmethod
    def receive(self, timeout_s: float) -> Sequence[Message]:
        """What has happened; waits for the first thing to happen, but no longer than this."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """When to stop trying.

    Attributes:
        max_attempts: how often a trial is begun.
        wait_s: how long a kind without a node is waited for.
        start_s: how long an agent may take to start on a node that is there.
    """

    max_attempts: int
    wait_s: float
    start_s: float


def dispatch(
    trials: Sequence[Trial],
    fleet: Fleet,
    emit: Emit,
    patience: Patience,
    now_s: Callable[[], float],
    forecasts: Mapping[str, Forecast] | None = None,
    ahead: SharedBuilds | None = None,
) -> Iterator[TrialResult]:
    """Exactly one result per trial, as soon as it is there.

    Args:
        trials: what to run, in the order of declaration.
        fleet: where it runs.
        emit: told what trials say, and every retry.
        patience: when to stop trying.
        now_s: a monotonic time in seconds.
        forecasts: by trial id, what trials are expected to take: the longest chain is begun first.
        ahead: what is built before some of the trials; of that no result is told.
    """
    ahead = ahead or SharedBuilds()
    book = LeaseBook(trials, max_attempts=patience.max_attempts, forecasts=forecasts, ahead=ahead)
    builds = Builds(ahead, emit)
    sweep = _Sweep((*ahead.builds, *trials), book, fleet, builds.emit, patience)
    for result in sweep.run(now_s):
        if builds.are(result.trial_id):
            builds.tell(result)
            sweep.supply_hungry()
        else:
            yield result


@final
class Builds:
    """What is heard of builds that are made ahead: news for the first trial that waits for each."""

    def __init__(self, ahead: SharedBuilds, emit: Emit) -> None:
        self._builds = {build.trial_id: build for build in ahead.builds}
        self._first: dict[str, str] = {}
        self._emit = emit
        for trial_id, builds in ahead.after.items():
            for build in builds:
                self._first.setdefault(build, trial_id)

    def are(self, trial_id: str) -> bool:
        """Whether that is one of them."""
        return trial_id in self._builds

    def emit(self, event: Event) -> None:
        """Pass on an event; a build's as that of who waits for it."""
        if self.are(event.trial_id):
            self._say(event.trial_id, f"{event.stage} {event.message}".rstrip())
        else:
            self._emit(event)

    def tell(self, result: TrialResult) -> None:
        """What became of a build; a failure costs no more than time."""
        failure = result.failure
        if failure is None:
            self._say(result.trial_id, "built")
        else:
            self._say(result.trial_id, f"not built ahead ({failure.kind}: {failure.message})")

    def _say(self, build_id: str, text: str) -> None:
        where = hardware_kind(self._builds[build_id])
        message = f"for a build on {where}: {text}"
        self._emit(Event(trial_id=self._first[build_id], stage="wait", message=message))


@final
@dataclass(slots=True)
class _Sweep:
    """The loop's state besides the book.

    Attributes:
        kinds: of each agent that is there.
        ahead: how many leases an agent is given beyond the one it works on.
        hungry: agents for which there was not enough, the longest waiting first.
        staff: how many agents there are of each kind.
        slots_since_s: since when a kind without an agent has had a node all the same.
        leaving: agents whose loss is nobody's fault.
        alone_since_s: since when a kind has had no agent.
        told: kinds of which it was said that they are waited for.
    """

    trials: Sequence[Trial]
    book: LeaseBook
    fleet: Fleet
    emit: Emit
    patience: Patience
    kinds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ahead: dict[str, int] = field(default_factory=dict)
    hungry: dict[str, None] = field(default_factory=dict)
    staff: Counter[str] = field(default_factory=Counter)
    alone_since_s: dict[str, float] = field(default_factory=dict)
    slots_since_s: dict[str, float] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)

    def run(self, now_s: Callable[[], float]) -> Iterator[TrialResult]:
        """Every result, until nothing is owed."""
        while not self.book.done():
            waiting = self.book.waiting()
            self.fleet.want(waiting)
            yield from self.give_up_overdue(now_s(), waiting)
            if self.book.done():
                return
            for message in self.fleet.receive(LOOK_S):
                yield from self.take(message)

    def supply_hungry(self) -> None:
        """Something can be leased that could not before."""
        for agent in list(self.hungry):
            self.supply(agent)

    def supply(self, agent: str) -> None:
        """Lease to one agent until it has enough; one that is gone gets nothing."""
        if agent not in self.kinds:
            return
        for kind in self.kinds[agent]:
            while len(self.book.held(agent)) <= self.ahead[agent]:
                lease = self.book.lease(agent, kind)
                if lease is None:
                    break
                self.fleet.send(lease)
        if len(self.book.held(agent)) > self.ahead[agent]:
            self.hungry.pop(agent, None)
        else:
            self.hungry[agent] = None

    def take(self, message: Message) -> Iterator[TrialResult]:
        """The results that a message leads to, mostly none or one."""
        match message:
            case Joined(agent=agent, kinds=kinds):
                self.kinds[agent], self.ahead[agent] = kinds, 0
                self.staff.update(kinds)
                self.told -= {*kinds}
                for kind in kinds:
                    self._no_longer_alone(kind)
                self.supply(agent)
            case TrialEvents(events=events):
                self._say(events)
            case Ended(lease=lease, result=result, events=events, busy_s=busy_s):
                self._say(events)
                self.ahead[lease.agent] = min(MAX_AHEAD, int(AHEAD_S / max(busy_s, 1e-6)))
                counted = self.book.finish(lease, result)
                self.supply(lease.agent)  # before the caller is busy with the result
                if counted is not None:
                    yield counted
            case Faulted(lease=lease, reason=reason):
                yield from self._bear(self.book.fault(lease, reason), reason)
                self.supply(lease.agent)
            case Leaving(agent=agent):
                self._dismiss(agent)
                self.leaving.add(agent)
            case Lost(agent=agent, reason=reason, excused=excused):
                self._dismiss(agent)
                excused = excused or agent in self.leaving
                yield from self._bear(self.book.lose(agent, reason, excused=excused), reason)

    def _dismiss(self, agent: str) -> None:
        """It gets nothing more."""
        self.staff.subtract(self.kinds.pop(agent, ()))
        self.hungry.pop(agent, None)

    def give_up_overdue(self, now_s: float, waiting: Mapping[str, int]) -> Iterator[TrialResult]:
        """Results for trials whose kind has had no agent for too long."""
        alone = {kind for kind in waiting if not self.staff[kind] and waiting[kind]}
        for kind in self.alone_since_s.keys() - alone:  # what it was waited for is no more
            self._no_longer_alone(kind)
        for kind in sorted(alone):
            waited_s, limit_s = self._waited(kind, now_s)
            if waited_s >= limit_s or self.fleet.is_hopeless(kind):
                vacancy = self.fleet.vacancy(kind)
                reason = f"{vacancy.reason} (waited {waited_s:.0f} s)"
                yield from self.book.give_up(kind, reason, vacancy.remedy, failure=vacancy.failure)
            elif waited_s >= SILENT_S and kind not in self.told:
                self.told.add(kind)
                self._say_waiting(kind, limit_s)

    def _no_longer_alone(self, kind: str) -> None:
        self.alone_since_s.pop(kind, None)
        self.slots_since_s.pop(kind, None)

    def _say_waiting(self, kind: str, limit_s: float) -> None:
        """A person sees why nothing happens, on the first trial that waits."""
        owed = (trial for trial in self.trials if self.book.owes(trial.trial_id))
        first = next(trial for trial in owed if hardware_kind(trial) == kind)
        message = f"for a free {kind}, at most {format_seconds(limit_s)}"
        self.emit(Event(trial_id=first.trial_id, stage="wait", message=message))

    def _waited(self, kind: str, now_s: float) -> tuple[float, float]:
        """How long this kind has been waited for, and how long it may be: without a node, or with
        one on which no agent starts.
        """
        alone_s = now_s - self.alone_since_s.setdefault(kind, now_s)
        if not self.fleet.slots(kind):
            self.slots_since_s.pop(kind, None)
            return alone_s, self.patience.wait_s
        return now_s - self.slots_since_s.setdefault(kind, now_s), self.patience.start_s

    def _say(self, events: Sequence[Event]) -> None:
        for event in events:
            if self.book.owes(event.trial_id):
                if event.stage != "build":
                    self.book.built(event.trial_id)
                self.emit(event)

    def _bear(self, loss: Loss, reason: str) -> Iterator[TrialResult]:
        for trial, attempt in loss.retried:
            message = f"attempt {attempt} of {self.patience.max_attempts}: {reason}"
            self.emit(Event(trial_id=trial.trial_id, stage="retry", message=message))
        self.supply_hungry()  # what was lost, or waited behind it, is there again
        yield from loss.results
