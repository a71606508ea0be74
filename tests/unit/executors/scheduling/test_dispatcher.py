"""The dispatch loop with a fleet that misbehaves in every way."""

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.price import PriceSnapshot
from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.domain.session import Event
from benchorch.domain.spending import SpendingRules
from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.assignments import TaskAssignment
from benchorch.executors.scheduling.dispatcher import (
    Faulted,
    Finished,
    Fleet,
    Joined,
    Leaving,
    Lost,
    Message,
    NoCapacity,
    RetryLimits,
    TrialEvents,
    dispatch,
)
from benchorch.executors.scheduling.queue import Forecast, SharedBuilds
from benchorch.executors.scheduling.spending import SpendingMeter
from support.synthetic_runs import price

LIMITS = RetryLimits(max_attempts=3, wait_s=30, start_s=120)


def trial(name: str, kind: str = "a") -> Trial:
    return Trial(trial_id=name, labels={"hardware_kind": kind}, spec={})


def ended(
    assignment: TaskAssignment, busy_s: float = 1.0, events: tuple[Event, ...] = ()
) -> Finished:
    result = TrialResult(
        trial_id=assignment.trial.trial_id, labels=assignment.trial.labels, outcome=Outcome.OK
    )
    return Finished(assignment=assignment, result=result, events=events, busy_s=busy_s)


@dataclass
class ScriptedFleet(Fleet):
    """Replies to each poll with what the script makes of the assignments sent so far."""

    script: Callable[["ScriptedFleet"], Sequence[Message]]
    announced: dict[str, int] = field(default_factory=dict)
    sent: list[TaskAssignment] = field(default_factory=list)
    requested: list[Mapping[str, int]] = field(default_factory=list)
    polls: int = 0
    taken_until_s: int = 0

    def request(self, queued: Mapping[str, int]) -> None:
        self.requested.append(queued)

    def slots(self, kind: str) -> int:
        return self.announced.get(kind, 0)

    def is_taken(self, kind: str) -> bool:
        return kind == "a" and self.polls < self.taken_until_s

    def no_capacity(self, kind: str) -> NoCapacity:
        reason = f"no node of kind {kind!r}"
        return NoCapacity(failure="no_node", reason=reason, remedy="start one")

    def send(self, assignment: TaskAssignment) -> None:
        self.sent.append(assignment)

    def receive(self, timeout_s: float) -> Sequence[Message]:
        self.polls += 1
        assert self.polls < 5000, "the sweep does not end"
        return self.script(self)

    def now_s(self) -> float:
        return float(self.polls)


def run(
    trials: Sequence[Trial],
    fleet: ScriptedFleet,
    limits: RetryLimits = LIMITS,
    forecasts: Mapping[str, Forecast] | None = None,
    shared: SharedBuilds | None = None,
) -> tuple[list[TrialResult], list[Event]]:
    events: list[Event] = []
    now_s = fleet.now_s
    groups = dispatch(trials, fleet, events.append, limits, now_s, forecasts, shared)
    results = list(chain.from_iterable(groups))
    return results, events


def obedient(fleet: ScriptedFleet) -> Sequence[Message]:
    """One agent of kind a joins at once and answers everything it is given."""
    if fleet.polls == 1:
        return [Joined(agent="x", kinds=("a",))]
    answers = [ended(assignment) for assignment in fleet.sent]
    fleet.sent.clear()
    return answers


def test_an_agent_with_long_trials_holds_one_at_a_time() -> None:
    most = 0

    def watch(fleet: ScriptedFleet) -> Sequence[Message]:
        nonlocal most
        most = max(most, len(fleet.sent))
        return obedient(fleet)

    results, _ = run([trial(str(i)) for i in range(20)], ScriptedFleet(watch))
    assert (len(results), most) == (20, 1)


def test_very_short_trials_are_assigned_in_advance() -> None:
    def swift(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.polls == 1:
            return [Joined(agent="x", kinds=("a",))]
        answers = [ended(assignment, busy_s=1e-4) for assignment in fleet.sent]
        fleet.sent.clear()
        return answers

    fleet = ScriptedFleet(swift)
    results, _ = run([trial(str(i)) for i in range(160)], fleet)
    assert len(results) == 160
    assert fleet.polls < 20


def test_results_that_are_there_at_once_come_together_once_their_agents_are_supplied() -> None:
    def swift(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.polls == 1:
            return [Joined(agent="x", kinds=("a",))]
        answers = [ended(assignment, busy_s=1e-3) for assignment in fleet.sent]
        fleet.sent.clear()
        return answers

    fleet, sizes = ScriptedFleet(swift), []
    trials = [trial(str(i)) for i in range(21)]
    for results in dispatch(trials, fleet, lambda event: None, LIMITS, fleet.now_s):
        sizes.append(len(results))
        assert fleet.sent or sum(sizes) == 21
    assert sizes == [1, 11, 9]


def test_what_came_before_an_error_is_handed_over_before_it_is_raised() -> None:
    def failing(fleet: ScriptedFleet) -> Iterator[Message]:
        if fleet.polls == 1:
            yield from [Joined(agent=name, kinds=("a",)) for name in "xy"]
            return
        yield ended(fleet.sent[0])
        raise ConnectionError("the cluster is gone")

    fleet = ScriptedFleet(failing)  # type: ignore[arg-type]  # goes wrong between two messages
    groups = dispatch([trial("1"), trial("2")], fleet, print, LIMITS, fleet.now_s)
    assert [result.trial_id for result in next(iter(groups))] == ["1"]
    with pytest.raises(ConnectionError):
        next(iter(groups))


def test_a_kind_without_a_node_is_given_up_after_the_wait_and_the_others_go_on() -> None:
    results, _ = run([trial("1", "b"), trial("2", "a")], ScriptedFleet(obedient))
    by_id = {result.trial_id: result for result in results}
    assert by_id["2"].outcome is Outcome.OK
    failure = by_id["1"].failure
    assert failure is not None
    assert failure.kind == "no_node"
    assert "waited 30 s" in failure.message


def test_the_wait_begins_once_other_sweeps_leave_a_machine() -> None:
    fleet = ScriptedFleet(lambda _: [], taken_until_s=500)
    (result,), events = run([trial("1")], fleet)
    assert result.failure is not None
    assert "waited 30 s" in result.failure.message
    assert fleet.polls > 500 + LIMITS.wait_s - 2
    assert [event.message for event in events] == ["for a free a, until another sweep ends"]


def test_a_node_that_is_there_is_given_longer_to_start() -> None:
    fleet = ScriptedFleet(lambda _: [], announced={"a": 1})
    (result,), _ = run([trial("1")], fleet)
    assert result.failure is not None
    assert "waited 120 s" in result.failure.message


def test_waiting_for_a_kind_is_reported_once() -> None:
    trials = [trial("1", "b"), trial("2", "b"), trial("3")]
    _, events = run(trials, ScriptedFleet(obedient))
    waits = [event for event in events if event.stage == "wait"]
    assert [(event.trial_id, event.message) for event in waits] == [
        ("1", "for a free b, at most 30.0 s")
    ]


def test_a_node_that_comes_late_has_all_its_time_to_start() -> None:
    def late(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.polls == 25:
            fleet.announced["a"] = 1
        return []

    (result,), _ = run([trial("1")], ScriptedFleet(late))
    assert result.failure is not None
    assert "waited 120 s" in result.failure.message
    assert result.failure.kind == "no_node"


def test_an_agent_on_an_interrupted_node_gets_no_more_trials() -> None:
    def interrupted(fleet: ScriptedFleet) -> Sequence[Message]:
        match fleet.polls:
            case 1:
                return [Joined(agent="x", kinds=("a",))]
            case 2:
                return [Leaving(agent="x"), *map(ended, fleet.sent)]
            case 3:
                assert [assignment.trial.trial_id for assignment in fleet.sent] == ["1"]
                return [Joined(agent="y", kinds=("a",))]
            case _:
                return [ended(assignment) for assignment in fleet.sent if assignment.agent == "y"]

    results, events = run([trial("1"), trial("2")], ScriptedFleet(interrupted))
    assert [(r.trial_id, r.attempt) for r in results] == [("1", 1), ("2", 1)]
    assert events == []


def test_a_late_result_of_an_interrupted_node_does_not_count_twice() -> None:
    def twice(fleet: ScriptedFleet) -> Sequence[Message]:
        match fleet.polls:
            case 1:
                return [Joined(agent="x", kinds=("a",))]
            case 2:
                return [Leaving(agent="x"), Lost(agent="x", reason="gone", uncounted=True)]
            case 3:
                return [Joined(agent="y", kinds=("a",))]
            case _:
                return [ended(assignment) for assignment in fleet.sent]

    results, _ = run([trial("1")], ScriptedFleet(twice))
    assert [(r.trial_id, r.attempt) for r in results] == [("1", 1)]


def test_a_node_that_joins_late_is_used() -> None:
    def late(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.polls == 20:
            return [Joined(agent="x", kinds=("a",))]
        return [ended(assignment) for assignment in fleet.sent]

    (result,), _ = run([trial("1")], ScriptedFleet(late))
    assert result.outcome is Outcome.OK


def test_a_retry_is_reported_with_its_reason() -> None:
    def dies_once(fleet: ScriptedFleet) -> Sequence[Message]:
        match fleet.polls:
            case 1:
                return [Joined(agent="x", kinds=("a",))]
            case 2:
                return [Lost(agent="x", reason="its node is dead"), Joined(agent="y", kinds=("a",))]
            case _:
                return [ended(fleet.sent[-1])]

    (result,), events = run([trial("1")], ScriptedFleet(dies_once))
    assert result.attempt == 2
    assert [(e.stage, e.message) for e in events] == [("retry", "attempt 2 of 3: its node is dead")]


def test_what_waited_behind_a_lost_trial_goes_to_an_agent_that_was_idle() -> None:
    def dies_with_prefetched_trials(fleet: ScriptedFleet) -> Sequence[Message]:
        match fleet.polls:
            case 1:
                return [Joined(agent="x", kinds=("a",))]
            case 2:  # so swift that it is given all the others at once, and the next one nothing
                return [ended(fleet.sent[0], busy_s=1e-6), Joined(agent="y", kinds=("a",))]
            case 3:
                assert {assignment.agent for assignment in fleet.sent} == {"x"}
                return [Lost(agent="x", reason="dead")]
            case _:
                return [ended(assignment) for assignment in fleet.sent if assignment.agent == "y"]

    trials = [trial(str(number)) for number in range(5)]
    fleet = ScriptedFleet(dies_with_prefetched_trials)
    results, _ = run(trials, fleet, RetryLimits(max_attempts=1, wait_s=30, start_s=120))
    lost = [result.trial_id for result in results if result.outcome is Outcome.FAILED]
    assert (len(results), lost) == (5, ["1"])


def test_events_of_a_trial_come_before_its_result_and_never_after() -> None:
    event = Event(trial_id="1", stage="measure", message="process 1 of 5")
    seen: list[str] = []

    def talkative(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.polls == 1:
            return [Joined(agent="x", kinds=("a",))]
        last = ended(fleet.sent[0], events=(event,))
        return [TrialEvents(events=(event,)), last, TrialEvents(events=(event,))]

    fleet = ScriptedFleet(talkative)
    trials = [trial("1")]
    groups = dispatch(trials, fleet, lambda e: seen.append(e.message), LIMITS, fleet.now_s)
    seen.extend(result.trial_id for results in groups for result in results)
    assert seen == ["process 1 of 5", "process 1 of 5", "1"]


def test_a_kind_that_is_finished_is_no_longer_wanted() -> None:
    fleet = ScriptedFleet(obedient)
    run([trial("1", "a"), trial("2", "b")], fleet)
    assert fleet.requested[0] == {"a": 1, "b": 1}
    assert fleet.requested[-1] == {"b": 1}


def build(kind: str = "a") -> Trial:
    return Trial(trial_id="ahead", labels={"hardware_kind": kind}, spec={}, build_steps=1)


@pytest.mark.parametrize("kinds", ["ab", "b"], ids=["built", "no machine for the build"])
def test_the_last_trial_has_a_result_though_the_budget_ends_while_it_waits_for_a_build(
    kinds: str,
) -> None:
    def joined_at_once(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.polls == 1:
            return [Joined(agent=kind, kinds=(kind,)) for kind in kinds]
        return [ended(assignment) for assignment in fleet.sent]

    meter = SpendingMeter(
        rules=SpendingRules(max_usd=1.0), prices=PriceSnapshot(on_demand={"b": price("b", 1.0)})
    )
    shared = SharedBuilds(
        builds=(build(),),
        after={"1": ("ahead",)},
        forecasts={"1": Forecast(measure_s=36000.0)},
    )
    fleet = ScriptedFleet(joined_at_once)
    groups = dispatch(
        [trial("1", "b")],
        fleet,
        lambda event: None,
        LIMITS,
        fleet.now_s,
        shared=shared,
        spending=meter,
    )
    (result,) = chain.from_iterable(groups)
    assert result.failure is not None
    assert result.failure.kind == "budget_reached"


WAITING = [trial("1", "b"), trial("2", "b"), trial("3", "b")]
AHEAD = SharedBuilds(builds=(build(),), after={"1": ("ahead",), "2": ("ahead",)})


def test_no_node_is_requested_for_trials_that_wait_for_a_shared_build() -> None:
    begun: list[str] = []

    def one_of_each(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.polls == 1:
            return [Joined(agent="x", kinds=("a",)), Joined(agent="y", kinds=("b",))]
        begun.extend(assignment.trial.trial_id for assignment in fleet.sent)
        answers = [ended(assignment) for assignment in fleet.sent]
        fleet.sent.clear()
        return answers

    fleet = ScriptedFleet(one_of_each)
    results, events = run(WAITING, fleet, shared=AHEAD)
    assert sorted(result.trial_id for result in results) == ["1", "2", "3"]
    assert begun == ["ahead", "3", "1", "2"]
    assert fleet.requested[0] == {"a": 1, "b": 1}
    assert fleet.requested[-1] == {"b": 0}
    assert [(e.trial_id, e.stage, e.message) for e in events] == [
        ("1", "wait", "for a build on a: built")
    ]


def test_events_of_a_shared_build_are_those_of_the_trial_that_waits_for_it() -> None:
    def talks(fleet: ScriptedFleet) -> Sequence[Message]:
        said = TrialEvents(
            events=(Event(trial_id="ahead", stage="build", message="building onnx"),)
        )
        return [said] if fleet.polls == 2 else obedient(fleet)

    _, events = run([trial("1")], ScriptedFleet(talks), shared=SharedBuilds(**BEFORE_ONE))
    assert [e.message for e in events] == [
        "for a build on a: build building onnx",
        "for a build on a: built",
    ]


BEFORE_ONE: dict[str, Any] = {"builds": (build(),), "after": {"1": ("ahead",)}}


def test_a_failed_shared_build_costs_no_trial_its_result() -> None:
    def fails(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.polls == 1:
            return [Joined(agent="x", kinds=("a",))]
        if fleet.polls == 2:
            (assignment,) = fleet.sent
            failure = Failure(stage="build", kind="oom", message="It was too large.")
            return [
                replace(
                    ended(assignment), result=replace(ended(assignment).result, failure=failure)
                )
            ]
        return [ended(fleet.sent[-1])]

    results, events = run([trial("1")], ScriptedFleet(fails), shared=SharedBuilds(**BEFORE_ONE))
    assert [(r.trial_id, r.outcome) for r in results] == [("1", Outcome.OK)]
    assert [e.message for e in events] == [
        "for a build on a: not built ahead (oom: It was too large.)"
    ]


def test_without_a_node_for_a_shared_build_its_trials_are_begun_without_it() -> None:
    def only_b(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.polls == 1:
            return [Joined(agent="y", kinds=("b",))]
        answers = [ended(assignment) for assignment in fleet.sent]
        fleet.sent.clear()
        return answers

    fleet = ScriptedFleet(only_b)
    results, _ = run([*WAITING, trial("4", "a")], fleet, shared=AHEAD)
    told = {result.trial_id: result for result in results}
    assert {trial_id: one.outcome for trial_id, one in told.items()} == {
        **dict.fromkeys("123", Outcome.OK),
        "4": Outcome.FAILED,
    }
    assert told["4"].failure is not None
    assert told["4"].failure.kind == "no_node"


def test_a_shared_build_has_as_many_attempts_as_a_trial() -> None:
    def dies(fleet: ScriptedFleet) -> Sequence[Message]:
        if any(assignment.trial.trial_id == "1" for assignment in fleet.sent):
            return [ended(fleet.sent[-1])]
        name = str(fleet.polls)
        return [Lost(agent=str(fleet.polls - 1), reason="dead"), Joined(agent=name, kinds=("a",))]

    fleet = ScriptedFleet(dies)
    results, _ = run([trial("1")], fleet, shared=SharedBuilds(**BEFORE_ONE))
    assert [assignment.trial.trial_id for assignment in fleet.sent] == ["ahead"] * 3 + ["1"]
    assert [(r.trial_id, r.outcome, r.attempt) for r in results] == [("1", Outcome.OK, 1)]


@dataclass
class ChaosFleet(ScriptedFleet):
    """Agents join, die, fault, answer twice and answer after their death; then all fall silent."""

    dice: random.Random = field(default_factory=random.Random)
    calm_after: int = 60
    queues: dict[str, deque[TaskAssignment]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    ghosts: list[TaskAssignment] = field(default_factory=list)
    left: set[str] = field(default_factory=set)

    def send(self, assignment: TaskAssignment) -> None:
        assert assignment.agent in self.queues, "assigned to an agent that is gone"
        assert assignment.agent not in self.left, "assigned to an agent that is leaving"
        assert assignment.trial.labels["hardware_kind"] in self.kinds[assignment.agent]
        self.queues[assignment.agent].append(assignment)
        self.sent.append(assignment)

    def receive(self, timeout_s: float) -> Sequence[Message]:
        self.polls += 1
        assert self.polls < 5000, "the sweep does not end"
        return [m for m in (self._happen(),) if m] if self.polls < self.calm_after else self._end()

    def _end(self) -> Sequence[Message]:
        """From now on every node is dead."""
        gone = list(self.queues)
        self.queues.clear()
        return [Lost(agent=agent, reason="dead") for agent in gone]

    def _happen(self) -> Message | None:
        busy = [agent for agent, queue in self.queues.items() if queue]
        happenings = ["join", "end", "end", "say", "fault", "lose", "excuse", "leave", "ghost"]
        choice = self.dice.choice([*happenings, "none"])
        if choice == "join":
            agent = f"agent{self.polls}"
            self.kinds[agent], self.queues[agent] = self.dice.choice(["a", "b", "ab"]), deque()
            return Joined(agent=agent, kinds=tuple(self.kinds[agent]))
        if choice in ("lose", "excuse") and self.queues:
            agent = self.dice.choice(list(self.queues))
            self.ghosts += self.queues.pop(agent)
            return Lost(agent=agent, reason="dead", uncounted=choice == "excuse")
        if choice == "leave" and self.queues:
            self.left.add(self.dice.choice(list(self.queues)))
            return Leaving(agent=sorted(self.left)[-1])
        if choice == "say" and busy:
            assignment = self.queues[self.dice.choice(busy)][0]
            return TrialEvents(events=(Event(trial_id=assignment.trial.trial_id, stage="measure"),))
        if choice == "ghost" and self.ghosts:
            return ended(self.dice.choice(self.ghosts))
        if busy and choice in ("end", "fault"):
            assignment = self.queues[self.dice.choice(busy)].popleft()
            self.ghosts.append(assignment)
            swift = self.dice.choice([1e-4, 1.0])
            return (
                ended(assignment, swift)
                if choice == "end"
                else Faulted(assignment=assignment, reason="no")
            )
        return None


@given(
    kinds=st.lists(st.sampled_from("abc"), max_size=25),
    needs=st.lists(st.sets(st.sampled_from("pqr")), max_size=25),
    awaits=st.lists(st.sets(st.sampled_from("xyz")), max_size=25),
    dice=st.randoms(use_true_random=False),
    calm_after=st.integers(1, 200),
    attempts=st.integers(1, 4),
)
def test_whatever_the_fleet_does_each_trial_has_exactly_one_result_from_its_own_kind(
    kinds: list[str],
    needs: list[set[str]],
    awaits: list[set[str]],
    dice: random.Random,
    calm_after: int,
    attempts: int,
) -> None:
    trials = [trial(str(i), kind) for i, kind in enumerate(kinds)]
    fleet = ChaosFleet(obedient, dice=dice, calm_after=calm_after)
    limits = RetryLimits(max_attempts=attempts, wait_s=5, start_s=5)
    forecasts = {
        str(number): Forecast(measure_s=number % 4, builds=dict.fromkeys(sorted(names), 10.0))
        for number, names in enumerate(needs)
    }
    shared = SharedBuilds(
        builds=tuple(
            replace(trial(name, "a"), build_steps=1)
            for name in sorted(set().union(*awaits[: len(kinds)]))
        ),
        after={str(i): tuple(sorted(names)) for i, names in enumerate(awaits[: len(kinds)])},
    )
    results, _ = run(trials, fleet, limits, forecasts, shared)
    assert Counter(r.trial_id for r in results) == Counter(t.trial_id for t in trials)
    assert all(1 <= r.attempt <= attempts for r in results)
    begun = Counter((assignment.trial.trial_id, assignment.attempt) for assignment in fleet.sent)
    assert all(attempt <= attempts for _, attempt in begun)
