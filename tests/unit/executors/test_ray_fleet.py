"""The fleet over a simulated Ray whose autoscaler launches what pending agents ask for."""

from __future__ import annotations

import errno
import queue
from collections import Counter, deque
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchorch.domain.price import Market, Price, PriceSnapshot
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.session import SPENDING, Event
from benchorch.domain.spending import SpendingRules
from benchorch.domain.trial import Trial
from benchorch.executors import ray_fleet
from benchorch.executors.ray_fleet import RayFleet
from benchorch.executors.scheduling.agent import AgentReport, AgentSetup, AgentUpdate
from benchorch.executors.scheduling.capacity import CapacityRules, MarketPolicy
from benchorch.executors.scheduling.cluster_file import (
    KIND_LABEL,
    MARKET_LABEL,
    NodeType,
    Placement,
)
from benchorch.executors.scheduling.cluster_status import LaunchStatus
from benchorch.executors.scheduling.dispatcher import RetryLimits, dispatch
from benchorch.executors.scheduling.file_transfer import FolderContent, ShippedFiles
from benchorch.executors.scheduling.queue import Forecast
from benchorch.executors.scheduling.spending import BESIDES_USD_PER_HOUR, IDLE_S, SpendingMeter
from support.slices import only

KIND = "g5.xlarge"
LIMITS = RetryLimits(max_attempts=2, wait_s=900, start_s=120)
BOOT_S = 30
END_S = 20.0
USD_PER_HOUR = 1.0


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


@dataclass(eq=False)
class Node:
    node_id: str
    labels: dict[str, str]
    alive: bool = True
    actors: list[Actor] = field(default_factory=list)
    launched_s: float = 0.0
    ended_s: float | None = None

    @property
    def kind(self) -> str:
        return self.labels[KIND_LABEL]


@dataclass(eq=False)
class Actor:
    """An agent as Ray keeps it: it answers once it has a node."""

    ray: LaunchingRay
    selector: Mapping[str, str]
    node: Node | None = None
    alive: bool = True
    asked: list[tuple[Callable[[], object], Future[Any], float]] = field(default_factory=list)

    def method(self, make: Callable[..., object], taken_s: Callable[..., float]) -> Any:
        def remote(*arguments: Any) -> Any:
            answer: Future[Any] = Future()
            self.asked.append((partial(make, *arguments), answer, taken_s(*arguments)))
            self.answer()
            return SimpleNamespace(future=lambda: answer)

        found = SimpleNamespace(remote=remote)
        found.options = lambda **_: found
        return found

    @property
    def node_id(self) -> Any:
        self.ray.starts += 1
        return self.method(partial(self.greet, self.ray.starts), lambda: 0.5)

    def greet(self, number: int) -> str:
        if number in self.ray.failing:
            raise RayError("FileExistsError: /zoo.py on this node differs")
        assert self.node is not None
        return self.node.node_id

    @property
    def update(self) -> Any:
        def updated() -> AgentUpdate:
            return AgentUpdate(notice=self.ray.notice if self.node is self.ray.machines[0] else "")

        return self.method(updated, lambda: 0.01)

    @property
    def run(self) -> Any:
        return self.method(self.ray.report, lambda trial, _: float(str(trial.spec["s"])))

    def answer(self) -> None:
        while self.node is not None and self.asked:
            make, answer, taken_s = self.asked.pop(0)
            self.ray.after(taken_s, partial(self.settle, make, answer))

    def settle(self, make: Callable[[], object], answer: Future[Any]) -> None:
        if self.alive and self.node is not None and self.node.alive:
            try:
                answer.set_result(make())
            except RayError as error:
                answer.set_exception(error)


@dataclass(eq=False)
class Boot:
    """A machine from its launch until it joins or is ended."""

    launched_s: float
    ended_s: float | None = None


class LaunchingRay:
    """What the fleet sees of Ray; nodes come for pending agents unless their market is dry."""

    def __init__(self, dry: Sequence[Market] = (), most: int = 100, slots: int = 1) -> None:
        self.exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
        self.clock_s = 0.0
        self.dry = [market.replace("_", "-") for market in dry]
        self.most = most
        self.slots_each = slots
        self.machines: list[Node] = []
        self.actors: list[Actor] = []
        self.launched: list[tuple[float, str]] = []
        self.gone: set[str] = set()
        self.notice = ""
        self.files: FolderContent | None = None
        self.silent = ""
        self.failed_starts: dict[str, list[str]] = {}
        self.most_pending = 0
        self.starts = 0
        self.others: list[str] = []
        self.failing: Container[int] = ()
        self.coming = 0
        self.booting: Counter[str] = Counter()
        self.boot_s: float = BOOT_S
        self.boots: list[Boot] = []
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._inbox: deque[Any] = deque()

    # what happens by itself

    def after(self, delay_s: float, act: Callable[[], None]) -> None:
        self._timers.append((self.clock_s + delay_s, act))
        self._timers.sort(key=lambda one: one[0])

    def autoscale(self) -> None:
        pending = [a for a in self.actors if a.alive and a.node is None]
        self.most_pending = max(self.most_pending, len(pending))
        for actor in pending:
            if self.place(actor):
                continue
            market = actor.selector[MARKET_LABEL]
            there = [n for n in self.machines if n.labels == actor.selector and n.alive]
            if (
                market not in self.dry
                and len(there) < self.most
                and (self.coming * self.slots_each < len(pending))
            ):
                self.coming += 1
                self.booting[market.replace("-", "_")] += 1
                self.launched.append((self.clock_s, market))
                self.boots.append(Boot(self.clock_s))
                self.after(self.boot_s, partial(self.join, dict(actor.selector), self.boots[-1]))

    def join(self, labels: dict[str, str], boot: Boot) -> None:
        if boot.ended_s is not None:
            return
        self.boots.remove(boot)
        launched_s = boot.launched_s
        self.coming -= 1
        self.booting[labels[MARKET_LABEL].replace("-", "_")] -= 1
        node = Node(f"{len(self.machines):056x}", labels, launched_s=launched_s)
        self.machines.append(node)
        for actor in self.actors:
            self.place(actor)

    def place(self, actor: Actor) -> bool:
        usable = (n for n in self.machines if n.alive and n.node_id not in self.gone)
        for node in usable:
            free = sum(one.alive for one in node.actors) < self.slots_each
            if free and actor.alive and actor.node is None and node.labels == actor.selector:
                actor.node = node
                node.actors.append(actor)
                actor.answer()
                return True
        return False

    def report(self, trial: Trial, attempt: int) -> AgentReport:
        result = TrialResult(
            trial_id=trial.trial_id, labels=trial.labels, outcome=Outcome.OK, attempt=attempt
        )
        return AgentReport(result=result, events=(), busy_s=10.0, files=self.files)

    # the module `ray`

    def nodes(self) -> list[dict[str, Any]]:
        self.autoscale()
        return [
            {
                "Alive": node.alive,
                "NodeID": node.node_id,
                "NodeManagerHostname": "host",
                "NodeManagerAddress": node.node_id,
                "Resources": {f"benchorch:{node.kind}": self.slots_each},
                "Labels": node.labels,
            }
            for node in self.machines
        ]

    def put(self, value: Any) -> Any:
        return value

    def remote(self, **_: object) -> Any:
        def options(*, label_selector: Mapping[str, str], num_gpus: int, **_: Any) -> Any:
            def start(work: Any, setup: AgentSetup, slots: int) -> Actor:
                assert (num_gpus, slots) == (1, self.slots_each)
                self.actors.append(Actor(self, label_selector))
                return self.actors[-1]

            return SimpleNamespace(remote=start)

        return lambda agent: SimpleNamespace(options=options)

    def kill(self, actor: Actor, *, no_restart: bool) -> None:
        assert no_restart
        actor.alive = False

    # what else the cluster tells

    def is_alive(self) -> bool:
        return True

    def agents_of_others(self) -> Collection[str]:
        return self.others

    def draining(self) -> set[str]:
        return self.gone

    def drain(self, node: str, reason: str) -> None:
        assert reason
        self.gone.add(node)
        for one in self.machines:
            if one.node_id == node and one.ended_s is None:
                one.ended_s = self.clock_s + END_S

    def end_booting(self, kinds: Collection[str], joined: Collection[str]) -> None:
        assert KIND in kinds
        assert joined == {node.node_id for node in self.machines if node.alive}
        for boot in self.boots:
            boot.ended_s = self.clock_s + END_S

    def bill(self, idle_s: float) -> float:
        """Machine hours: each until it was ended, or idle for so long after the end."""
        ends = [self.clock_s + idle_s if n.ended_s is None else n.ended_s for n in self.machines]
        lives = zip(self.machines, ends, strict=True)
        joined = sum(end_s - node.launched_s for node, end_s in lives)
        return (joined + sum(self._boot_ends(idle_s))) / 3600

    def _boot_ends(self, idle_s: float) -> Iterator[float]:
        for boot in self.boots:
            idle_from_s = max(self.clock_s, boot.launched_s + self.boot_s)
            yield (boot.ended_s or idle_from_s + idle_s) - boot.launched_s

    def launches(self) -> LaunchStatus:
        return LaunchStatus(
            booting=+self.booting, stopped=self.silent, failed_starts=self.failed_starts
        )

    # the inbox: waiting lets time pass

    def put_answer(self, item: Any) -> None:
        self._inbox.append(item)

    def get_answer(self, *, timeout: float) -> Any:
        until_s = self.clock_s + timeout
        while not self._inbox and self._timers and self._timers[0][0] <= until_s:
            self.clock_s, act = self._timers.pop(0)
            act()
        if not self._inbox:
            self.clock_s = max(self.clock_s, until_s)
        return self.get_answer_now()

    def get_answer_now(self) -> Any:
        if not self._inbox:
            raise queue.Empty
        return self._inbox.popleft()


def trial(name: str, kind: str = KIND, s: float = 20.0) -> Trial:
    return Trial(trial_id=name, labels={"hardware_kind": kind}, spec={"s": s})


def sweep(
    ray: LaunchingRay,
    trials: Sequence[Trial],
    policy: MarketPolicy = MarketPolicy.SPOT_THEN_ON_DEMAND,
    setup: AgentSetup | None = None,
    max_nodes: int = 4,
    forecasts: Mapping[str, Forecast] | None = None,
    spending: SpendingMeter | None = None,
) -> tuple[dict[str, TrialResult], list[Event]]:
    rules = CapacityRules(
        node_types=[
            NodeType(
                placement=Placement(kind=KIND, market=market),
                max_nodes=max_nodes,
                gpus=ray.slots_each,
                slots=ray.slots_each,
                name=market,
            )
            for market in Market
        ],
        policy=policy,
    )
    inbox = SimpleNamespace(put=ray.put_answer, get=ray.get_answer, get_nowait=ray.get_answer_now)
    fleet = RayFleet(
        ray,
        lambda *_, **__: None,  # type: ignore[arg-type, return-value]  # agents are simulated
        ray,
        setup=setup,
        rules=rules,
        inbox=inbox,
        now_s=lambda: ray.clock_s,
    )
    events: list[Event] = []
    found = list(
        chain.from_iterable(
            dispatch(
                *(trials, fleet, events.append, LIMITS, lambda: ray.clock_s, forecasts),
                spending=spending,
            )
        )
    )
    fleet.close()
    assert len(found) == len({result.trial_id for result in found}) == len(trials)
    assert not any(actor.alive for actor in ray.actors)
    # machines take long to come, and cost meanwhile
    reported = [event for event in events if event.stage not in ("wait", SPENDING)]
    if spending is not None:
        reported = [event for event in events if event.stage == SPENDING]
    return {result.trial_id: result for result in found}, reported


def test_nodes_are_launched_for_queued_trials_up_to_the_limit() -> None:
    ray = LaunchingRay()
    results, _ = sweep(ray, [trial(str(i)) for i in range(12)], max_nodes=3)
    assert {r.outcome for r in results.values()} == {Outcome.OK}
    assert {r.environment["market"] for r in results.values()} == {"spot"}
    assert len(ray.machines) == 3
    assert ray.most_pending <= 3


def test_an_agent_without_work_is_released_so_that_its_node_may_be_terminated() -> None:
    ray = LaunchingRay()
    trials = [trial("short", s=1), trial("long", s=500)]
    seen: list[int] = []
    ray.after(300, lambda: seen.append(sum(actor.alive for actor in ray.actors)))
    sweep(ray, trials)
    assert seen == [1]


def test_on_demand_follows_where_spot_has_none_and_the_result_says_so() -> None:
    ray = LaunchingRay(dry=[Market.SPOT])
    results, _ = sweep(ray, [trial("t")])
    assert results["t"].environment["market"] == "on_demand"
    ((asked_s, market),) = ray.launched
    assert market == "on-demand"
    assert 90 <= asked_s <= 95


def test_where_no_market_has_any_the_trial_fails_with_the_reason_and_the_sweep_ends() -> None:
    ray = LaunchingRay(dry=list(Market))
    results, _ = sweep(ray, [trial("t")])
    failure = results["t"].failure
    assert failure is not None
    assert (failure.stage, failure.kind) == ("schedule", "no_capacity")
    assert "No g5.xlarge came (spot and then on_demand, spot 1 time(s) in vain)" in failure.message
    assert "waited 900 s" in failure.message
    assert ray.clock_s < 1000


def test_a_kind_that_is_not_declared_is_refused_at_once_and_the_others_go_on() -> None:
    ray = LaunchingRay()
    results, _ = sweep(ray, [trial("t"), trial("no", kind="p5.48xlarge")])
    failure = results["no"].failure
    assert failure is not None
    assert "declares no p5.48xlarge" in failure.message
    assert "it declares: g5.xlarge (on_demand), g5.xlarge (spot)" in failure.message
    assert "waited 0 s" in failure.message
    assert results["t"].outcome is Outcome.OK


def test_an_autoscaler_that_is_broken_ends_the_sweep_at_once() -> None:
    ray = LaunchingRay(dry=list(Market))
    ray.after(40, lambda: setattr(ray, "silent", "Ray's autoscaler has reported nothing for 120 s"))
    results, _ = sweep(ray, [trial("t")])
    failure = results["t"].failure
    assert failure is not None
    assert "Ray's autoscaler has reported nothing" in failure.message
    assert "monitor.log" in failure.remedy
    assert ray.clock_s < 60


def test_a_type_whose_machines_cannot_start_is_given_up_with_what_they_said() -> None:
    ray = LaunchingRay(dry=list(Market))
    said = [f"i-{number} failed at packages: no such wheel" for number in range(3)]
    ray.after(40, lambda: ray.failed_starts.update({KIND: said[:1]}))
    ray.after(80, lambda: ray.failed_starts.update({KIND: said}))
    results, _ = sweep(ray, [trial("t")])
    failure = results["t"].failure
    assert failure is not None
    assert f"3 {KIND} booted and could not start" in failure.message
    assert "i-2 failed at packages: no such wheel" in failure.message
    assert 80 <= ray.clock_s < 120  # not after wait_s


def test_agents_that_fail_now_and_then_stop_no_launches() -> None:
    ray = LaunchingRay()
    ray.failing = {1, 3, 5}  # each time the next one starts

    def drain() -> None:
        ray.gone = {node.node_id for node in ray.machines}

    for s in (45, 105):  # so that each trial needs an agent of its own
        ray.after(s, drain)
    results, _ = sweep(ray, [trial(str(i)) for i in range(3)], max_nodes=1)
    assert {r.outcome for r in results.values()} == {Outcome.OK}
    assert ray.starts == 6


def test_a_type_on_which_no_agent_starts_is_given_up_with_the_reason() -> None:
    ray = LaunchingRay()
    ray.failing = range(100)
    ray.after(BOOT_S + 30, partial(kill_the_first, ray))  # as it is idle
    results, _ = sweep(ray, [trial("t")])
    failure = results["t"].failure
    assert failure is not None
    assert failure.kind == "no_node"
    assert f"3 agents in succession ended while they started on a {KIND}" in failure.message
    assert "FileExistsError: /zoo.py on this node differs" in failure.message
    assert ray.clock_s < BOOT_S + 60  # not after wait_s


def kill_the_first(ray: LaunchingRay) -> None:
    ray.machines[0].alive = False


def test_a_node_that_dies_without_notice_costs_an_attempt() -> None:
    ray = LaunchingRay()
    ray.after(BOOT_S + 10, partial(kill_the_first, ray))
    results, events = sweep(ray, [trial("t")])
    assert (results["t"].outcome, results["t"].attempt) == (Outcome.OK, 2)
    assert len(ray.launched) == 2
    assert [event.stage for event in events] == ["retry"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [("Ray", "Ray drains its node"), ("the machine", "EC2 will terminate this machine at 08:22")],
)
def test_an_announced_interruption_costs_no_attempt(source: str, reason: str) -> None:
    ray = LaunchingRay()

    def announce() -> None:
        if source == "Ray":
            ray.gone = {ray.machines[0].node_id}
        else:
            ray.notice = "EC2 will terminate this machine at 08:22"

    def die() -> None:
        ray.notice = ""
        kill_the_first(ray)

    ray.after(BOOT_S + 5, announce)
    ray.after(BOOT_S + 15, die)
    results, events = sweep(ray, [trial("t")])
    assert (results["t"].outcome, results["t"].attempt) == (Outcome.OK, 1)
    (event,) = events
    assert event.stage == "retry"
    assert event.message.endswith(f"was lost: {reason}")


@pytest.mark.parametrize("source", ["Ray", "the machine"])
def test_an_interrupted_node_finishes_its_trial_and_gets_no_other(source: str) -> None:
    ray = LaunchingRay()
    trials = [trial("1"), trial("2")]

    def announce() -> None:
        if source == "Ray":
            ray.gone = {ray.machines[0].node_id}
        else:
            ray.notice = "EC2 will terminate this machine at 08:22"

    ray.after(BOOT_S + 5, announce)
    results, events = sweep(ray, trials, max_nodes=1)
    assert {r.attempt for r in results.values()} == {1}
    assert events == []
    assert len(ray.machines) == 2


def test_the_folder_of_a_trial_comes_back_with_its_result(tmp_path: Path) -> None:
    ray = LaunchingRay()
    ray.files = FolderContent(files={"log.txt": b"hello", "profile/trace.json": b"{}"})
    sweep(ray, [trial("t")], setup=AgentSetup(shipped=ShippedFiles(directory=tmp_path, probe="n")))
    assert (tmp_path / "trials" / "t" / "log.txt").read_text() == "hello"
    assert (tmp_path / "trials" / "t" / "profile" / "trace.json").exists()


def test_files_that_lead_out_of_the_folder_are_rejected_with_their_result(
    tmp_path: Path,
) -> None:
    ray = LaunchingRay()
    ray.files = FolderContent(files={"../../evil": b"x"})
    setup = AgentSetup(shipped=ShippedFiles(directory=tmp_path / "run", probe="n"))
    results, _ = sweep(ray, [trial("t")], setup=setup)
    failure = results["t"].failure
    assert failure is not None
    assert failure.kind == "agent_failed"
    assert "leads out of" in failure.message
    assert not (tmp_path / "evil").exists()


def test_files_that_no_disk_has_room_for_leave_the_result_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def write(content: FolderContent, folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder / "profile/trace.json"))

    monkeypatch.setattr(ray_fleet, "write_folder", write)
    ray = LaunchingRay()
    ray.files = FolderContent(files={"profile/trace.json": b"{}"})
    setup = AgentSetup(shipped=ShippedFiles(directory=tmp_path, probe="n"))
    results, _ = sweep(ray, [trial("t"), trial("u")], setup=setup)
    assert outcomes(results) == {"ok": 2}
    assert "Files of trial t from" in caplog.text
    assert "No space left on device" in caplog.text


def paid(max_usd: float | None, **rules: Any) -> SpendingMeter:
    """A meter of machines at a dollar an hour in both markets."""

    def priced(market: Market) -> dict[str, Price]:
        price = Price(
            kind=KIND,
            market=market,
            usd_per_hour=USD_PER_HOUR - BESIDES_USD_PER_HOUR,
            region="us-east-1",
            as_of="2026-11-23",
            source="config",
        )
        return {KIND: price}

    prices = PriceSnapshot(on_demand=priced(Market.ON_DEMAND), spot=priced(Market.SPOT))
    return SpendingMeter(rules=SpendingRules(max_usd=max_usd, **rules), prices=prices)


def expecting(trials: Sequence[Trial], s: float) -> dict[str, Forecast]:
    return {one.trial_id: Forecast(measure_s=s) for one in trials}


def outcomes(results: Mapping[str, TrialResult]) -> Counter[str]:
    return Counter(r.failure.kind if r.failure else str(r.outcome) for r in results.values())


def test_a_machine_of_four_slots_measures_four_trials_at_once() -> None:
    ray = LaunchingRay(slots=4)
    results, _ = sweep(ray, [trial(str(i), s=100) for i in range(8)], max_nodes=2)
    assert outcomes(results) == {"ok": 8}
    assert [len(node.actors) for node in ray.machines] == [4, 4]
    assert ray.clock_s < BOOT_S + 2 * 100


def test_a_machine_of_four_slots_is_launched_once_for_four_trials() -> None:
    ray = LaunchingRay(slots=4)
    results, _ = sweep(ray, [trial(str(i)) for i in range(4)], max_nodes=4)
    assert outcomes(results) == {"ok": 4}
    assert len(ray.machines) == 1


@pytest.mark.parametrize("slots", [1, 4])
def test_what_was_spent_is_what_the_machines_lived(slots: int) -> None:
    ray, meter = LaunchingRay(slots=slots), paid(None)
    trials = [trial(str(i), s=600) for i in range(8 * slots)]
    results, events = sweep(ray, trials, max_nodes=4, spending=meter)
    assert outcomes(results) == {"ok": 8 * slots}
    assert meter.usd == pytest.approx(ray.bill(idle_s=0) * USD_PER_HOUR, rel=0.02)
    last = events[-1].spending
    assert last is not None
    assert (last.usd, last.max_usd) == (meter.usd, None)
    most = max(sum(e.spending.machines.values()) for e in events if e.spending)
    assert most == 4


@pytest.mark.parametrize(
    ("slots", "max_usd", "slower"),
    only(
        lambda case: case[0] == 1 or case == (4, 0.5, 3),
        product((1, 4), (0.25, 0.5, 1.0), (1, 3, 10)),
    ),
)
def test_the_bill_stays_within_the_budget_however_long_trials_take(
    slots: int, slower: int, max_usd: float
) -> None:
    ray = LaunchingRay(slots=slots)
    trials = [trial(str(i), s=120.0 * slower) for i in range(12 * slots)]
    results, _ = sweep(
        ray, trials, max_nodes=4, forecasts=expecting(trials, 120), spending=paid(max_usd)
    )
    assert ray.bill(idle_s=IDLE_S) * USD_PER_HOUR <= max_usd
    assert set(outcomes(results)) <= {"ok", "budget_reached"}
    if slower == 1 and max_usd >= 0.7:  # the twelve of them, a launch and an idle end
        assert outcomes(results) == {"ok": 12 * slots}


def test_a_budget_ends_what_runs_and_keeps_what_is_finished() -> None:
    ray = LaunchingRay()
    trials = [trial("short", s=300), trial("endless", s=1e6)]
    results, _ = sweep(
        ray, trials, max_nodes=1, forecasts=expecting(trials, 60), spending=paid(0.5)
    )
    failure = results["endless"].failure
    assert results["short"].outcome is Outcome.OK
    assert failure is not None
    assert (failure.stage, failure.kind) == ("schedule", "budget_reached")
    assert "of budget.max_usd=0.5 is spent; the machines were ended" in failure.message
    assert "Raise budget.max_usd" in failure.remedy
    assert ray.gone == {node.node_id for node in ray.machines}
    assert 1500 < ray.clock_s < 1800


def test_a_machine_that_still_boots_when_the_budget_is_reached_is_ended() -> None:
    ray = LaunchingRay()
    ray.boot_s = 1e5  # the start script hangs
    results, _ = sweep(ray, [trial("t")], max_nodes=1, spending=paid(0.2))
    assert outcomes(results) == {"budget_reached": 1}
    assert [boot.ended_s is not None for boot in ray.boots] == [True]
    assert ray.bill(idle_s=IDLE_S) * USD_PER_HOUR <= 0.2


def test_the_time_from_launch_to_first_trial_is_observed_and_expected_next_time() -> None:
    ray, meter = LaunchingRay(), paid(None)
    ray.boot_s = 90
    sweep(ray, [trial("1"), trial("2")], max_nodes=1, spending=meter)
    last = meter.last_report()
    assert last is not None
    assert last.launch_s == {KIND: pytest.approx(90, abs=3)}
    again = LaunchingRay()
    results, _ = sweep(again, [trial("t")], spending=paid(0.06, launch_s=last.launch_s))
    assert (outcomes(results), len(again.launched)) == ({"ok": 1}, 1)


def test_a_machine_that_was_there_before_the_sweep_says_nothing_of_launches() -> None:
    meter, place = paid(None), Placement(kind=KIND, market=Market.SPOT)
    meter.observe(0.0, {place: 1})
    meter.begin("t", KIND, 10.0, "m")
    assert meter.report() is not None
    assert meter.last_report().launch_s == {}  # type: ignore[union-attr]  # just reported
    meter.observe(10.0, {})
    meter.observe(20.0, {place: 1})
    meter.observe(80.0, {place: 1})
    meter.begin("u", KIND, 10.0, "m")
    assert meter.last_report().launch_s == {KIND: 60.0}  # type: ignore[union-attr]


def test_no_trial_begins_that_is_expected_to_pass_the_budget() -> None:
    ray = LaunchingRay()
    trials = [trial("long", s=7200), trial("short", s=60)]
    forecasts = {"long": Forecast(measure_s=7200), "short": Forecast(measure_s=60)}
    results, _ = sweep(ray, trials, max_nodes=1, forecasts=forecasts, spending=paid(0.5))
    failure = results["long"].failure
    assert failure is not None
    assert "this trial is expected to cost 2.00" in failure.message
    assert results["short"].outcome is Outcome.OK


def test_no_machine_is_launched_that_the_budget_does_not_allow() -> None:
    ray = LaunchingRay()
    results, _ = sweep(ray, [trial("t")], spending=paid(0.05))
    failure = results["t"].failure
    assert failure is not None
    assert "launching a g5.xlarge is expected to cost 0.08" in failure.message
    assert ray.launched == []


def test_more_machines_are_launched_only_where_the_budget_has_their_boot_and_idle_end() -> None:
    def machines(max_usd: float) -> int:
        ray = LaunchingRay()
        trials = [trial(str(i), s=60) for i in range(8)]
        forecasts = expecting(trials, 60)
        results, _ = sweep(ray, trials, max_nodes=8, forecasts=forecasts, spending=paid(max_usd))
        assert outcomes(results) == {"ok": 8}
        return len(ray.machines)

    assert machines(0.35) == 1
    assert 1 < machines(1.0) < 8
    assert machines(10.0) == 8


def test_a_resumed_sweep_goes_on_with_what_it_has_spent() -> None:
    ray, meter = LaunchingRay(), paid(1.0, spent_usd=0.97)
    results, _ = sweep(ray, [trial("t")], spending=meter)
    assert outcomes(results) == {"budget_reached": 1}
    assert ray.launched == []


def test_machines_end_at_once_where_the_budget_does_not_pay_their_idle_end() -> None:
    for max_usd, ended in ((0.16, 1), (2.0, 0)):
        ray = LaunchingRay()
        results, _ = sweep(ray, [trial("t", s=300)], max_nodes=1, spending=paid(max_usd))
        assert outcomes(results) == {"ok": 1}
        assert len(ray.gone) == ended


def beside_another_sweep() -> tuple[LaunchingRay, Node]:
    """A head on which another sweep has a machine, and waits for two that boot."""
    ray = LaunchingRay()
    labels = {KIND_LABEL: KIND, MARKET_LABEL: "spot"}
    theirs = Node("f" * 56, labels, actors=[Actor(ray, labels)])
    ray.machines.append(theirs)
    ray.others = [theirs.node_id, ""]
    ray.booting["spot"] += 2
    return ray, theirs


def test_machines_of_another_sweep_on_the_same_head_are_not_billed() -> None:
    ray, theirs = beside_another_sweep()
    meter = paid(None)
    results, _ = sweep(ray, [trial("t", s=3600)], spending=meter)
    assert outcomes(results) == {"ok": 1}
    (own,) = [node for node in ray.machines if node is not theirs]
    assert meter.usd == pytest.approx((ray.clock_s - own.launched_s) / 3600, rel=0.02)


def test_a_spent_budget_ends_no_machine_of_another_sweep_on_the_same_head() -> None:
    ray, theirs = beside_another_sweep()
    results, _ = sweep(ray, [trial("endless", s=1e6)], max_nodes=1, spending=paid(0.5))
    assert outcomes(results) == {"budget_reached": 1}
    assert ray.gone == {node.node_id for node in ray.machines if node is not theirs}


def test_a_machine_of_another_sweep_is_not_one_on_which_agents_should_have_started() -> None:
    ray, _ = beside_another_sweep()
    ray.others.remove("")
    ray.booting.clear()
    ray.dry = ["spot"]
    ray.boot_s = 3 * LIMITS.start_s
    results, _ = sweep(ray, [trial("t")])
    assert outcomes(results) == {"ok": 1}
    assert [market for _, market in ray.launched] == ["on-demand"]
    ray, _ = beside_another_sweep()
    ray.dry = ["spot", "on-demand"]
    results, _ = sweep(ray, [trial("t")])
    failure = results["t"].failure
    assert failure is not None
    assert "other sweeps use 1)" in failure.message


def test_the_only_machine_of_a_kind_is_waited_for_until_another_sweep_leaves_it() -> None:
    ray, theirs = beside_another_sweep()
    ray.most, ray.others = 1, [theirs.node_id]
    ray.booting.clear()

    def leave() -> None:
        ray.others, theirs.actors = [], []

    ray.after(4 * LIMITS.wait_s, leave)
    results, _ = sweep(ray, [trial("t")], max_nodes=1)
    assert outcomes(results) == {"ok": 1}
    assert ray.launched == []


def test_a_machine_that_another_sweep_has_left_and_this_one_uses_is_billed() -> None:
    ray, theirs = beside_another_sweep()
    ray.others, theirs.actors = [], []
    meter = paid(None)
    sweep(ray, [trial("t", s=3600)], max_nodes=1, spending=meter)
    assert ray.launched == []
    assert meter.usd >= 1
