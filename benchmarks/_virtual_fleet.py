"""A sweep with its true durations, and a fleet on a virtual clock that runs it.

Builds and measurements are lognormal (median 45 s with sigma 1, and 30 s with sigma 0.7); about
4 250 of 10 000 trials' (artifact, class) pairs are distinct. Nodes build what is not there yet,
wait where another one is building it, and then measure; where faults are asked for, builds and
measurements fail, and nodes die and are replaced.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import Counter, deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeAlias

from benchorch.domain.result import BuildRecord, Outcome, TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.assignments import TaskAssignment
from benchorch.executors.scheduling.dispatcher import (
    Faulted,
    Finished,
    Fleet,
    Joined,
    Lost,
    Message,
    NoCapacity,
    TrialEvents,
)
from benchorch.executors.scheduling.queue import Forecast

CLASSES = 6
PAIRS_PER_TRIAL = 0.49  # drawn from; about 0.425 of the trials' number is hit at least once
BUILD_S, BUILD_SIGMA = 45.0, 1.0
MEASURE_S, MEASURE_SIGMA = 30.0, 0.7
BUILT = BuildRecord(
    key="k", cache="miss", build_s=1, original_build_s=1, artifact_bytes=1, model_digest="d"
)
Running: TypeAlias = Generator[float | str, None, None]
"""What goes on: it yields seconds to pass, or the artifact that it waits for."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is to be done, and how long it truly takes."""

    trials: Sequence[Trial]
    nodes: Sequence[str]  # the class of each
    artifact: dict[str, str]
    build_s: dict[str, float]
    measure_s: dict[str, float]

    @property
    def work_s(self) -> float:
        """Seconds of all builds, each once, and of all measurements."""
        return sum(self.build_s.values()) + sum(self.measure_s.values())

    @property
    def bound_s(self) -> float:
        """No schedule is shorter: of each class the work by its nodes, or the longest chain."""
        work: Counter[str] = Counter()
        chain: dict[str, float] = {}
        for name, taken_s in self.build_s.items():
            work[name.partition(":")[0]] += taken_s  # type: ignore[assignment]
        for trial in self.trials:
            kind, measure_s = trial.labels["hardware_kind"], self.measure_s[trial.trial_id]
            work[kind] += measure_s  # type: ignore[assignment]
            whole_s = self.build_s[self.artifact[trial.trial_id]] + measure_s
            chain[kind] = max(chain.get(kind, 0.0), whole_s)
        nodes = Counter(self.nodes)
        return max(max(work[kind] / nodes[kind], chain[kind]) for kind in chain)

    def forecasts(self, sigma: float, seed: int) -> dict[str, Forecast]:
        """The true durations, each off by a lognormal error."""
        dice = random.Random(seed)
        told = {name: s * dice.lognormvariate(0, sigma) for name, s in self.build_s.items()}
        return {
            trial_id: Forecast(
                measure_s=measure_s * dice.lognormvariate(0, sigma),
                builds={self.artifact[trial_id]: told[self.artifact[trial_id]]},
            )
            for trial_id, measure_s in self.measure_s.items()
        }


def make_sweep(trials: int, nodes: int, seed: int) -> Sweep:
    """A sweep of six classes, with nodes in proportion to each class's work."""
    dice = random.Random(seed)
    pool = max(1, round(trials * PAIRS_PER_TRIAL / CLASSES))
    built = {f"c{c}:{n}": dice.lognormvariate(math.log(BUILD_S), BUILD_SIGMA)
             for c in range(CLASSES) for n in range(pool)}  # fmt: skip
    made, artifact, measure_s = [], {}, {}
    for number in range(trials):
        kind, trial_id = f"c{dice.randrange(CLASSES)}", f"{number:06d}"
        made.append(Trial(trial_id=trial_id, labels={"hardware_kind": kind}, spec={}))
        artifact[trial_id] = f"{kind}:{dice.randrange(pool)}"
        measure_s[trial_id] = dice.lognormvariate(math.log(MEASURE_S), MEASURE_SIGMA)
    needed = {name: built[name] for name in artifact.values()}
    return Sweep(made, _shares(nodes, made, measure_s, needed), artifact, needed, measure_s)


def _shares(
    nodes: int, trials: Sequence[Trial], measure_s: dict[str, float], needed: dict[str, float]
) -> list[str]:
    """The class of each node: the next node goes where most work is left for each node."""
    work: dict[str, float] = dict.fromkeys((f"c{c}" for c in range(CLASSES)), 0.0)
    for trial in trials:
        work[trial.labels["hardware_kind"]] += measure_s[trial.trial_id]
    for name, taken_s in needed.items():
        work[name.partition(":")[0]] += taken_s
    given = Counter(work.keys())
    while given.total() < nodes:
        given[max(work, key=lambda kind: work[kind] / given[kind])] += 1
    return sorted(given.elements())


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong; a node that is lost is replaced by another one of its class.

    Attributes:
        boot_s: from asking for a node until its agent is there; the first nodes boot as well.
        fails_ratio: of builds, and of measurements, that end without a result at a random moment.
        lost_ratio: of nodes, that die at a random moment before the bound of the sweep.
        notice_s: until the death of a node is known and another one is asked for.
        seed: of the dice that decide.
    """

    boot_s: float = 90.0
    fails_ratio: float = 0.03
    lost_ratio: float = 0.05
    notice_s: float = 15.0
    seed: int = 0


NO_FAULTS = Faults(boot_s=0, fails_ratio=0, lost_ratio=0)


class AttemptFailed(Exception):
    """A build or a measurement that ended without a result."""


@dataclass(slots=True)
class VirtualFleet(Fleet):
    """Nodes on a virtual clock; each works through its assignments in order.

    Attributes:
        shared: whether an artifact that one node built is there for all of its class.
        log: when each assignment held its node: node, trial, from, to.
        builds: how often each artifact was built to the end.
        spent_s: on making each artifact and on measuring each trial, failed attempts included.
        lost: nodes that died.
        failed: attempts that came back without a result.
    """

    sweep: Sweep
    shared: bool = True
    faults: Faults = NO_FAULTS
    clock_s: float = 0.0
    log: list[tuple[str, str, float, float]] = field(default_factory=list)
    builds: Counter[str] = field(default_factory=Counter)
    spent_s: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    failed: int = 0
    own_s: float = 0.0
    _dice: random.Random = field(default_factory=random.Random)
    _there: set[str] = field(default_factory=set)
    _waiting: dict[str, list[Running]] = field(default_factory=dict)
    _assignments: dict[str, deque[TaskAssignment]] = field(default_factory=dict)
    _at_work: dict[str, Running] = field(default_factory=dict)
    _mail: list[Message] = field(default_factory=list)
    _agenda: list[tuple[float, int, Running]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self._dice.seed(self.faults.seed)
        for kind in self.sweep.nodes:
            self._resume(self._live(kind))

    @property
    def longest_s(self) -> float:
        """The longest chain, with all its attempts: they never overlap."""
        spent_s = self.spent_s
        return max(spent_s[trial] + spent_s[name] for trial, name in self.sweep.artifact.items())

    def now_s(self) -> float:
        """The virtual time."""
        return self.clock_s

    def request(self, queued: Mapping[str, int]) -> None:
        """Every node is asked for from the beginning."""
        del queued

    def slots(self, kind: str) -> int:
        """One a node."""
        return self.sweep.nodes.count(kind)

    def no_capacity(self, kind: str) -> NoCapacity:
        """Never asked."""
        return NoCapacity(failure="no_node", reason=f"no node of {kind}", remedy="")

    def send(self, assignment: TaskAssignment) -> None:
        """The node begins at once, unless it is at work; one that is dead never does."""
        began_s = time.perf_counter()
        if assignment.agent in self._assignments:
            self._assignments[assignment.agent].append(assignment)
            if assignment.agent not in self._at_work:
                self._at_work[assignment.agent] = self._work(assignment.agent)
                self._resume(self._at_work[assignment.agent])
        self.own_s += time.perf_counter() - began_s

    def receive(self, timeout_s: float) -> Sequence[Message]:
        """Let time pass until something has happened."""
        began_s = time.perf_counter()
        while not self._mail:
            self.clock_s, _, running = heappop(self._agenda)
            self._resume(running)
        mail, self._mail = self._mail, []
        self.own_s += time.perf_counter() - began_s
        return mail

    def _resume(self, running: Running) -> None:
        wish = next(running, None)
        if isinstance(wish, str):
            self._waiting.setdefault(wish, []).append(running)
        elif wish is not None:
            heappush(self._agenda, (self.clock_s + wish, next(self._numbers), running))

    def _live(self, kind: str) -> Running:
        """One node from its boot on; if it dies, its successor."""
        if self.faults.boot_s:
            yield self.faults.boot_s
        agent = f"n{next(self._numbers)}"
        self._assignments[agent] = deque()
        self._mail.append(Joined(agent=agent, kinds=(kind,)))
        if self._dice.random() >= self.faults.lost_ratio:
            return
        yield self.sweep.bound_s * self._dice.random()
        self.lost += 1
        del self._assignments[agent]
        at_work = self._at_work.pop(agent, None)
        if at_work is not None:
            at_work.close()
        yield self.faults.notice_s
        self._mail.append(Lost(agent=agent, reason="its node is dead"))
        self._resume(self._live(kind))

    def _work(self, agent: str) -> Running:
        assignments = self._assignments[agent]
        while assignments:
            assignment, began_s = assignments.popleft(), self.clock_s
            try:
                yield from self._attempt(assignment)
            except AttemptFailed:
                self.failed += 1
                answer: Message = Faulted(assignment=assignment, reason="the dice said so")
            else:
                self.log.append((agent, assignment.trial.trial_id, began_s, self.clock_s))
                answer = _ended(assignment, self.clock_s - began_s)
            if not assignments:
                del self._at_work[agent]
            self._mail.append(answer)

    def _attempt(self, assignment: TaskAssignment) -> Running:
        trial_id = assignment.trial.trial_id
        yield from self._obtain(self.sweep.artifact[trial_id])
        self._mail.append(TrialEvents(events=(Event(trial_id=trial_id, stage="measure"),)))
        yield from self._spend(trial_id, self.sweep.measure_s[trial_id])

    def _obtain(self, name: str) -> Running:
        """One build at a time for each artifact of the store; others wait for how it ends."""
        while self.shared and name in self._waiting:
            yield name
        if self.shared and name in self._there:
            return
        if self.shared:
            self._waiting[name] = []
        try:
            yield from self._spend(name, self.sweep.build_s[name])
            self.builds[name] += 1
            self._there.add(name)
        finally:  # built, failed or died: the next one looks for itself
            for running in self._waiting.pop(name, ()):
                self._resume(running)

    def _spend(self, name: str, taken_s: float) -> Running:
        """All of it, or a part and then a failure."""
        fails, began_s = self._dice.random() < self.faults.fails_ratio, self.clock_s
        try:
            yield taken_s * self._dice.random() if fails else taken_s
        finally:
            self.spent_s[name] += self.clock_s - began_s  # type: ignore[assignment]
        if fails:
            raise AttemptFailed


def _ended(assignment: TaskAssignment, busy_s: float) -> Finished:
    trial = assignment.trial
    result = TrialResult(
        trial_id=trial.trial_id, labels=trial.labels, outcome=Outcome.OK, build=BUILT
    )
    return Finished(assignment=assignment, result=result, events=(), busy_s=busy_s)
