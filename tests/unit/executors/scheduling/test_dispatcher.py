"""The dispatch loop with a fleet that does as it pleases."""

import random
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.dispatcher import (
    Ended,
    Faulted,
    Fleet,
    Joined,
    Leaving,
    Lost,
    Message,
    NoCapacity,
    Patience,
    TrialEvents,
    dispatch,
)
from benchorch.executors.scheduling.leases import TrialLease
from benchorch.executors.scheduling.queue import Forecast, SharedBuilds

PATIENCE = Patience(max_attempts=3, wait_s=30, start_s=120)


def trial(name: str, kind: str = "a") -> Trial:
    return Trial(trial_id=name, labels={"hardware_kind": kind}, spec={})


def ended(lease: TrialLease, busy_s: float = 1.0, events: tuple[Event, ...] = ()) -> Ended:
    result = TrialResult(
        trial_id=lease.trial.trial_id, labels=lease.trial.labels, outcome=Outcome.OK
    )
    return Ended(lease=lease, result=result, events=events, busy_s=busy_s)


@dataclass
class ScriptedFleet(Fleet):
    """Answers each look with what the script makes of the leases sent so far."""

    script: Callable[["ScriptedFleet"], Sequence[Message]]
    announced: dict[str, int] = field(default_factory=dict)
    sent: list[TrialLease] = field(default_factory=list)
    wanted: list[Mapping[str, int]] = field(default_factory=list)
    looks: int = 0

    def want(self, waiting: Mapping[str, int]) -> None:
        self.wanted.append(waiting)

    def slots(self, kind: str) -> int:
        return self.announced.get(kind, 0)

    def vacancy(self, kind: str) -> NoCapacity:
        reason = f"no node of kind {kind!r}"
        return NoCapacity(failure="no_node", reason=reason, remedy="start one")

    def send(self, lease: TrialLease) -> None:
        self.sent.append(lease)

    def receive(self, timeout_s: float) -> Sequence[Message]:
        self.looks += 1
        assert self.looks < 5000, "the sweep does not end"
        return self.script(self)

    def now_s(self) -> float:
        return float(self.looks)


def run(
    trials: Sequence[Trial],
    fleet: ScriptedFleet,
    patience: Patience = PATIENCE,
    forecasts: Mapping[str, Forecast] | None = None,
    ahead: SharedBuilds | None = None,
) -> tuple[list[TrialResult], list[Event]]:
    events: list[Event] = []
    now_s = fleet.now_s
    results = list(dispatch(trials, fleet, events.append, patience, now_s, forecasts, ahead))
    return results, events


def obedient(fleet: ScriptedFleet) -> Sequence[Message]:
    """One agent of kind a joins at once and answers everything it is given."""
    if fleet.looks == 1:
        return [Joined(agent="x", kinds=("a",))]
    answers = [ended(lease) for lease in fleet.sent]
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


def test_an_agent_with_very_short_trials_is_supplied_ahead() -> None:
    def swift(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.looks == 1:
            return [Joined(agent="x", kinds=("a",))]
        answers = [ended(lease, busy_s=1e-4) for lease in fleet.sent]
        fleet.sent.clear()
        return answers

    fleet = ScriptedFleet(swift)
    results, _ = run([trial(str(i)) for i in range(160)], fleet)
    assert len(results) == 160
    assert fleet.looks < 20


def test_a_kind_without_a_node_is_given_up_after_the_wait_and_the_others_go_on() -> None:
    results, _ = run([trial("1", "b"), trial("2", "a")], ScriptedFleet(obedient))
    by_id = {result.trial_id: result for result in results}
    assert by_id["2"].outcome is Outcome.OK
    failure = by_id["1"].failure
    assert failure is not None
    assert failure.kind == "no_node"
    assert "waited 30 s" in failure.message


def test_a_node_that_is_there_is_given_longer_to_start() -> None:
    fleet = ScriptedFleet(lambda _: [], announced={"a": 1})
    (result,), _ = run([trial("1")], fleet)
    assert result.failure is not None
    assert "waited 120 s" in result.failure.message


def test_a_kind_that_is_waited_for_is_named_once_to_the_person_who_waits() -> None:
    trials = [trial("1", "b"), trial("2", "b"), trial("3")]
    _, events = run(trials, ScriptedFleet(obedient))
    waits = [event for event in events if event.stage == "wait"]
    assert [(event.trial_id, event.message) for event in waits] == [
        ("1", "for a free b, at most 30.0 s")
    ]


def test_a_node_that_comes_late_has_all_its_time_to_start() -> None:
    def late(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.looks == 25:
            fleet.announced["a"] = 1
        return []

    (result,), _ = run([trial("1")], ScriptedFleet(late))
    assert result.failure is not None
    assert "waited 120 s" in result.failure.message
    assert result.failure.kind == "no_node"


def test_an_agent_whose_machine_was_called_back_gets_no_more() -> None:
    def called_back(fleet: ScriptedFleet) -> Sequence[Message]:
        match fleet.looks:
            case 1:
                return [Joined(agent="x", kinds=("a",))]
            case 2:
                return [Leaving(agent="x", reason="spot"), *map(ended, fleet.sent)]
            case 3:
                assert [lease.trial.trial_id for lease in fleet.sent] == ["1"]
                return [Joined(agent="y", kinds=("a",))]
            case _:
                return [ended(lease) for lease in fleet.sent if lease.agent == "y"]

    results, events = run([trial("1"), trial("2")], ScriptedFleet(called_back))
    assert [(r.trial_id, r.attempt) for r in results] == [("1", 1), ("2", 1)]
    assert events == []


def test_a_late_result_of_a_machine_that_was_called_back_does_not_count_twice() -> None:
    def twice(fleet: ScriptedFleet) -> Sequence[Message]:
        match fleet.looks:
            case 1:
                return [Joined(agent="x", kinds=("a",))]
            case 2:
                return [Leaving(agent="x", reason="spot"), Lost(agent="x", reason="gone")]
            case 3:
                return [Joined(agent="y", kinds=("a",))]
            case _:
                return [ended(lease) for lease in fleet.sent]

    results, _ = run([trial("1")], ScriptedFleet(twice))
    assert [(r.trial_id, r.attempt) for r in results] == [("1", 1)]


def test_a_node_that_joins_late_is_used() -> None:
    def late(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.looks == 20:
            return [Joined(agent="x", kinds=("a",))]
        return [ended(lease) for lease in fleet.sent]

    (result,), _ = run([trial("1")], ScriptedFleet(late))
    assert result.outcome is Outcome.OK


def test_a_retry_is_said_to_the_person_waiting() -> None:
    def dies_once(fleet: ScriptedFleet) -> Sequence[Message]:
        match fleet.looks:
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
    def dies_with_leases_ahead(fleet: ScriptedFleet) -> Sequence[Message]:
        match fleet.looks:
            case 1:
                return [Joined(agent="x", kinds=("a",))]
            case 2:  # so swift that it is given all the others at once, and the next one nothing
                return [ended(fleet.sent[0], busy_s=1e-6), Joined(agent="y", kinds=("a",))]
            case 3:
                assert {lease.agent for lease in fleet.sent} == {"x"}
                return [Lost(agent="x", reason="dead")]
            case _:
                return [ended(lease) for lease in fleet.sent if lease.agent == "y"]

    trials = [trial(str(number)) for number in range(5)]
    fleet = ScriptedFleet(dies_with_leases_ahead)
    results, _ = run(trials, fleet, Patience(max_attempts=1, wait_s=30, start_s=120))
    lost = [result.trial_id for result in results if result.outcome is Outcome.FAILED]
    assert (len(results), lost) == (5, ["1"])


def test_events_of_a_trial_come_before_its_result_and_never_after() -> None:
    event = Event(trial_id="1", stage="measure", message="process 1 of 5")
    seen: list[str] = []

    def talkative(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.looks == 1:
            return [Joined(agent="x", kinds=("a",))]
        last = ended(fleet.sent[0], events=(event,))
        return [TrialEvents(events=(event,)), last, TrialEvents(events=(event,))]

    fleet = ScriptedFleet(talkative)
    trials = [trial("1")]
    results = dispatch(trials, fleet, lambda e: seen.append(e.message), PATIENCE, fleet.now_s)
    seen.extend(result.trial_id for result in results)
    assert seen == ["process 1 of 5", "process 1 of 5", "1"]


def test_a_kind_that_is_finished_is_no_longer_wanted() -> None:
    fleet = ScriptedFleet(obedient)
    run([trial("1", "a"), trial("2", "b")], fleet)
    assert fleet.wanted[0] == {"a": 1, "b": 1}
    assert fleet.wanted[-1] == {"b": 1}


def build(kind: str = "a") -> Trial:
    return Trial(trial_id="ahead", labels={"hardware_kind": kind}, spec={}, build_steps=1)


WAITING = [trial("1", "b"), trial("2", "b"), trial("3", "b")]
AHEAD = SharedBuilds(builds=(build(),), after={"1": ("ahead",), "2": ("ahead",)})


def test_a_machine_is_wanted_for_those_that_wait_for_a_build_only_when_it_is_over() -> None:
    begun: list[str] = []

    def one_of_each(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.looks == 1:
            return [Joined(agent="x", kinds=("a",)), Joined(agent="y", kinds=("b",))]
        begun.extend(lease.trial.trial_id for lease in fleet.sent)
        answers = [ended(lease) for lease in fleet.sent]
        fleet.sent.clear()
        return answers

    fleet = ScriptedFleet(one_of_each)
    results, events = run(WAITING, fleet, ahead=AHEAD)
    assert sorted(result.trial_id for result in results) == ["1", "2", "3"]
    assert begun == ["ahead", "3", "1", "2"]
    assert fleet.wanted[0] == {"a": 1, "b": 1}
    assert fleet.wanted[-1] == {"b": 0}
    assert [(e.trial_id, e.stage, e.message) for e in events] == [
        ("1", "wait", "for a build on a: built")
    ]


def test_what_a_build_says_is_told_as_what_is_waited_for() -> None:
    def talks(fleet: ScriptedFleet) -> Sequence[Message]:
        said = TrialEvents(
            events=(Event(trial_id="ahead", stage="build", message="building onnx"),)
        )
        return [said] if fleet.looks == 2 else obedient(fleet)

    _, events = run([trial("1")], ScriptedFleet(talks), ahead=SharedBuilds(**BEFORE_ONE))
    assert [e.message for e in events] == [
        "for a build on a: build building onnx",
        "for a build on a: built",
    ]


BEFORE_ONE: dict[str, Any] = {"builds": (build(),), "after": {"1": ("ahead",)}}


def test_a_build_that_fails_costs_nobody_the_result() -> None:
    def fails(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.looks == 1:
            return [Joined(agent="x", kinds=("a",))]
        if fleet.looks == 2:
            (lease,) = fleet.sent
            failure = Failure(stage="build", kind="oom", message="It was too large.")
            return [replace(ended(lease), result=replace(ended(lease).result, failure=failure))]
        return [ended(fleet.sent[-1])]

    results, events = run([trial("1")], ScriptedFleet(fails), ahead=SharedBuilds(**BEFORE_ONE))
    assert [(r.trial_id, r.outcome) for r in results] == [("1", Outcome.OK)]
    assert [e.message for e in events] == [
        "for a build on a: not built ahead (oom: It was too large.)"
    ]


def test_where_no_machine_comes_for_a_build_those_that_wait_are_begun_without_it() -> None:
    def only_b(fleet: ScriptedFleet) -> Sequence[Message]:
        if fleet.looks == 1:
            return [Joined(agent="y", kinds=("b",))]
        answers = [ended(lease) for lease in fleet.sent]
        fleet.sent.clear()
        return answers

    fleet = ScriptedFleet(only_b)
    results, _ = run([*WAITING, trial("4", "a")], fleet, ahead=AHEAD)
    told = {result.trial_id: result for result in results}
    assert {trial_id: one.outcome for trial_id, one in told.items()} == {
        **dict.fromkeys("123", Outcome.OK),
        "4": Outcome.FAILED,
    }
    assert told["4"].failure is not None
    assert told["4"].failure.kind == "no_node"


def test_a_build_that_loses_its_machines_is_given_up_after_as_many_attempts_as_a_trial() -> None:
    def dies(fleet: ScriptedFleet) -> Sequence[Message]:
        if any(lease.trial.trial_id == "1" for lease in fleet.sent):
            return [ended(fleet.sent[-1])]
        name = str(fleet.looks)
        return [Lost(agent=str(fleet.looks - 1), reason="dead"), Joined(agent=name, kinds=("a",))]

    fleet = ScriptedFleet(dies)
    results, _ = run([trial("1")], fleet, ahead=SharedBuilds(**BEFORE_ONE))
    assert [lease.trial.trial_id for lease in fleet.sent] == ["ahead"] * 3 + ["1"]
    assert [(r.trial_id, r.outcome, r.attempt) for r in results] == [("1", Outcome.OK, 1)]


@dataclass
class ChaosFleet(ScriptedFleet):
    """Agents join, die, fault, answer twice and answer after their death; then all fall silent."""

    dice: random.Random = field(default_factory=random.Random)
    calm_after: int = 60
    queues: dict[str, deque[TrialLease]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    ghosts: list[TrialLease] = field(default_factory=list)
    left: set[str] = field(default_factory=set)

    def send(self, lease: TrialLease) -> None:
        assert lease.agent in self.queues, "leased to an agent that is gone"
        assert lease.agent not in self.left, "leased to an agent that is leaving"
        assert lease.trial.labels["hardware_kind"] in self.kinds[lease.agent]
        self.queues[lease.agent].append(lease)
        self.sent.append(lease)

    def receive(self, timeout_s: float) -> Sequence[Message]:
        self.looks += 1
        assert self.looks < 5000, "the sweep does not end"
        return [m for m in (self._happen(),) if m] if self.looks < self.calm_after else self._end()

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
            agent = f"agent{self.looks}"
            self.kinds[agent], self.queues[agent] = self.dice.choice(["a", "b", "ab"]), deque()
            return Joined(agent=agent, kinds=tuple(self.kinds[agent]))
        if choice in ("lose", "excuse") and self.queues:
            agent = self.dice.choice(list(self.queues))
            self.ghosts += self.queues.pop(agent)
            return Lost(agent=agent, reason="dead", excused=choice == "excuse")
        if choice == "leave" and self.queues:
            self.left.add(self.dice.choice(list(self.queues)))
            return Leaving(agent=sorted(self.left)[-1], reason="spot")
        if choice == "say" and busy:
            lease = self.queues[self.dice.choice(busy)][0]
            return TrialEvents(events=(Event(trial_id=lease.trial.trial_id, stage="measure"),))
        if choice == "ghost" and self.ghosts:
            return ended(self.dice.choice(self.ghosts))
        if busy and choice in ("end", "fault"):
            lease = self.queues[self.dice.choice(busy)].popleft()
            self.ghosts.append(lease)
            swift = self.dice.choice([1e-4, 1.0])
            return ended(lease, swift) if choice == "end" else Faulted(lease=lease, reason="no")
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
    patience = Patience(max_attempts=attempts, wait_s=5, start_s=5)
    forecasts = {
        str(number): Forecast(measure_s=number % 4, builds=dict.fromkeys(sorted(names), 10.0))
        for number, names in enumerate(needs)
    }
    ahead = SharedBuilds(
        builds=tuple(
            replace(trial(name, "a"), build_steps=1)
            for name in sorted(set().union(*awaits[: len(kinds)]))
        ),
        after={str(i): tuple(sorted(names)) for i, names in enumerate(awaits[: len(kinds)])},
    )
    results, _ = run(trials, fleet, patience, forecasts, ahead)
    assert Counter(r.trial_id for r in results) == Counter(t.trial_id for t in trials)
    assert all(1 <= r.attempt <= attempts for r in results)
    begun = Counter((lease.trial.trial_id, lease.attempt) for lease in fleet.sent)
    assert all(attempt <= attempts for _, attempt in begun)
