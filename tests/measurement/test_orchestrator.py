"""What the orchestrator promises whatever fails: O1 to O6 of the measurement protocol.

Each is tested here over the real code, with the world around it simulated and reduced. What needs
real processes is tested where those are:

- O1: ``unit/stores/test_local_processes.py`` (eight builders, killed builders);
  ``benchmarks/build_once.py`` is the full run of the test here.
- O2: ``e2e/test_ray_cluster.py`` (a cluster's nodes, one of two kinds, another sweep's slot).
- O3: ``unit/test_processes.py`` (pairs inside processes and of adjacent ones),
  ``e2e/test_compare.py`` (real pairs), ``e2e/test_ray_cluster.py`` (a node dies in mid-trial).
- O4: ``benchmarks/scheduling.py`` is the full run of the test here.
- O5: ``e2e/test_faults.py`` (a killed run is taken up, an interrupted one too),
  ``e2e/test_ray_cluster.py`` (killed agents and nodes), ``e2e/test_mlflow_server.py`` (a tracker).
- O6: ``e2e/test_cli.py`` (one weight of a checkpoint), ``unit/test_fingerprint.py``.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import queue
import random
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from benchorch.config.composer import Composer, config_loader
from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.domain.codec import Json
from benchorch.domain.measurement import Calibration, Observations, Paired, ProcessRecord
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import RecordError
from benchorch.executors.ray_fleet import RayFleet
from benchorch.executors.scheduling import agent as agent_module
from benchorch.executors.scheduling.agent import AgentSetup
from benchorch.executors.scheduling.dispatcher import RetryLimits, dispatch
from benchorch.interfaces.executor import Emit, Executor, TrialRunner
from benchorch.journal import reader, run_directory
from support.fakes import QuietAutoscaler
from support.slices import one_in

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def benchmark(name: str) -> ModuleType:
    """A script of benchmarks/, whose full run is too long for the suite."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)  # as when it is run
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def composer() -> Composer:
    return Composer(config_loader())


# O1


def test_each_artifact_is_built_once_over_failures_doubles_and_lost_nodes(
    tmp_path: Path,
) -> None:
    seen = benchmark("build_once").run(trials=500, nodes=24, seed=1, root=tmp_path / "store")
    finished = Counter(name for name, _, _ in seen.made)
    told = Counter(name for name, built, _, _ in seen.answers if built)
    served = {name for name, _, _, _ in seen.answers}
    assert served == finished.keys() == told.keys()
    assert set(finished.values()) == set(told.values()) == {1}
    # That it was hard enough: builds failed or lost their node, and requests met one under way.
    assert len(seen.begun) > len(finished)
    assert seen.waited > 0


# O2 and O3: the real fleet and dispatch loop over a simulated Ray


@dataclass
class Machine:
    """A node; `working` is how many trials run on it now, `most` the most there ever were."""

    node_id: str
    resources: dict[str, int]
    free: dict[str, int]
    queued: list[Actor] = field(default_factory=list)
    actors: list[Actor] = field(default_factory=list)
    alive: bool = True
    lent: bool = False
    working: int = 0
    most: int = 0

    @property
    def slots(self) -> int:
        return min(self.resources.values())

    def begin(self) -> None:
        self.working += 1
        self.most = max(self.most, self.working)


@dataclass(eq=False)
class Actor:
    """One agent as Ray keeps it: placed once its resources are free, its calls one by one."""

    ray: SimulatedRay
    machine: Machine
    needs: Mapping[str, int]
    agent: Any
    calls: deque[tuple[Trial, int, Future[Any]]] = field(default_factory=deque)
    asked: list[tuple[Callable[[], object], Future[Any]]] = field(default_factory=list)
    running: Future[Any] | None = None
    placed: bool = False
    alive: bool = True

    def run_remote(self, trial: Trial, attempt: int) -> Any:
        answer: Future[Any] = Future()
        self.calls.append((trial, attempt, answer))
        self.ray.after(0.001, self.work)
        return SimpleNamespace(future=lambda: answer)

    def ask_remote(self, question: Callable[[], object]) -> Any:
        answer: Future[Any] = Future()
        self.asked.append((question, answer))
        self.ray.after(0.001, self.greet)
        return SimpleNamespace(future=lambda: answer)

    @property
    def run(self) -> Any:
        return SimpleNamespace(remote=self.run_remote)

    @property
    def node_id(self) -> Any:
        return SimpleNamespace(remote=partial(self.ask_remote, self.agent.node_id))

    @property
    def update(self) -> Any:
        method = SimpleNamespace(remote=partial(self.ask_remote, self.agent.update))
        method.options = lambda **_: method
        return method

    def greet(self) -> None:
        while self.placed and self.alive and self.asked:
            question, answer = self.asked.pop()
            answer.set_result(question())

    def work(self) -> None:
        if not (self.placed and self.alive and self.running is None and self.calls):
            return
        trial, attempt, self.running = self.calls.popleft()
        self.machine.begin()
        self.ray.where = self.machine.node_id
        self.ray.begun.append((trial.trial_id, attempt, self.machine.node_id))
        try:
            report = self.agent.run(trial, attempt)
        except RuntimeError as error:
            self.end(self.ray.exceptions.RayTaskError(str(error)), None)
            return
        taken_s = float(str(trial.spec["s"]))
        told_s = self.ray.dice.choice([taken_s, 1e-4])  # what is believed of the next one's length
        self.ray.after(taken_s, lambda: self.end(None, replace(report, busy_s=told_s)))

    def end(self, error: Exception | None, content: Any) -> None:
        if not self.alive or self.running is None:
            return
        answer, self.running = self.running, None
        self.machine.working -= 1
        answer.set_exception(error) if error else answer.set_result(content)
        self.work()

    def die(self, *, silent: bool = False) -> None:
        """With everything it runs; answers fail, or (a node cut off) never come."""
        if not self.alive:
            return
        self.alive = False
        unanswered = [
            *(answer for _, answer in self.asked),
            *(answer for _, _, answer in self.calls),
        ]
        if self.running is not None:
            self.machine.working -= 1
            unanswered.append(self.running)
        gone = self.ray.exceptions.RayError("The actor died")
        for answer in () if silent else unanswered:
            self.ray.after(0.1, partial(answer.set_exception, gone))
        if self.placed:
            for name, count in self.needs.items():
                self.machine.free[name] += count
        self.ray.place(self.machine)


class SimulatedRay:
    """What `RayFleet` sees of Ray: nodes, resources, actors. Time is virtual."""

    class _RayError(Exception):
        pass

    class _RayTaskError(_RayError):
        pass

    def __init__(self, dice: random.Random) -> None:
        self.exceptions = SimpleNamespace(RayError=self._RayError, RayTaskError=self._RayTaskError)
        self.util = SimpleNamespace(scheduling_strategies=SimpleNamespace())
        self.util.scheduling_strategies.NodeAffinitySchedulingStrategy = lambda node_id, soft: (
            SimpleNamespace(node_id=node_id)
        )
        self.dice = dice
        self.clock_s = 0.0
        self.machines: list[Machine] = []
        self.begun: list[tuple[str, int, str]] = []
        self.where = ""
        self.inbox: deque[Any] = deque()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def after(self, delay_s: float, act: Callable[[], None]) -> None:
        heappush(self._agenda, (self.clock_s + delay_s, next(self._numbers), act))

    def join(self, slots: Mapping[str, int]) -> None:
        resources = {f"benchorch:{kind}": count for kind, count in slots.items()}
        self.machines.append(Machine(f"{len(self.machines) + 1:056x}", resources, {**resources}))

    def replace_a_node(self) -> None:
        """One is gone, another comes; whether answers fail or never come is chance."""
        gone = self.dice.choice([machine for machine in self.machines if machine.alive])
        gone.alive = False
        silent = self.dice.random() < 0.5
        for actor in (*gone.actors, *gone.queued):
            actor.die(silent=silent)
        self.join({name.partition(":")[2]: count for name, count in gone.resources.items()})

    def kill_an_agent(self) -> None:
        agents = [actor for machine in self.machines for actor in machine.actors if actor.alive]
        if agents:
            self.dice.choice(agents).die()

    def let_somebody_else_measure(self) -> None:
        """Another program takes a free slot by one of its kinds, and gives it back some time."""
        machine = self.dice.choice([machine for machine in self.machines if machine.alive])
        kind = self.dice.choice(list(machine.free))
        if machine.lent or not machine.free[kind]:
            return
        machine.lent = True
        machine.free[kind] -= 1
        machine.begin()

        def leave() -> None:
            machine.lent = False
            machine.working -= 1
            machine.free[kind] += 1
            self.place(machine)

        self.after(self.dice.uniform(10, 60), leave)

    def place(self, machine: Machine) -> None:
        for actor in list(machine.queued):
            if actor.alive and all(machine.free[n] >= count for n, count in actor.needs.items()):
                machine.queued.remove(actor)
                machine.actors.append(actor)
                actor.placed = True
                for name, count in actor.needs.items():
                    machine.free[name] -= count
                self.after(0.5, actor.greet)
                self.after(0.5, actor.work)

    # The module `ray`

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "Alive": machine.alive,
                "NodeID": machine.node_id,
                "NodeManagerHostname": machine.node_id,
                "NodeManagerAddress": machine.node_id,
                "Resources": {"CPU": 4.0, **machine.resources},
            }
            for machine in self.machines
        ]

    def put(self, value: Any) -> Any:
        return value

    def remote(self, **_: object) -> Callable[[Callable[[TrialRunner, AgentSetup], Any]], Any]:
        def wrap(make: Callable[[TrialRunner, AgentSetup], Any]) -> Any:
            def options(*, resources: Mapping[str, int], scheduling_strategy: Any, **_: Any) -> Any:
                machine = next(m for m in self.machines if m.node_id == scheduling_strategy.node_id)

                def start(work: TrialRunner, setup: AgentSetup, slots: int) -> Actor:
                    assert slots == machine.slots
                    actor = Actor(self, machine, resources, make(work, setup))
                    machine.queued.append(actor)
                    self.place(machine)
                    return actor

                return SimpleNamespace(remote=start)

            return SimpleNamespace(options=options)

        return wrap

    def kill(self, actor: Actor, *, no_restart: bool) -> None:
        assert no_restart
        actor.die()

    # The fleet's inbox: waiting lets virtual time pass

    def put_answer(self, item: Any) -> None:
        self.inbox.append(item)

    def get_answer(self, *, timeout: float) -> Any:
        until_s = self.clock_s + timeout
        while not self.inbox and self._agenda and self._agenda[0][0] <= until_s:
            self.clock_s, _, act = heappop(self._agenda)
            act()
        if not self.inbox:
            self.clock_s = until_s
        return self.get_answer_now()

    def get_answer_now(self) -> Any:
        if not self.inbox:
            raise queue.Empty
        return self.inbox.popleft()


LIMITS = RetryLimits(max_attempts=4, wait_s=60, start_s=120)
PAIRS = 8


def observed(*durations: int) -> Observations:
    return Observations(
        durations_ns=durations, started_ns=durations, calls_per_block=1, items_per_call=1
    )


def pair_of(trial: Trial, node: str) -> ProcessRecord:
    """One process that alternated with its trial's baseline, and where it ran."""
    return ProcessRecord(
        load_s=1,
        first_call_s=1,
        observations=observed(1),
        steady_from=0,
        calibration=Calibration(pair_cost_ns=40, step_ns=1),
        peak_rss_bytes=1,
        facts={"node": node},
        paired=Paired(
            baseline_id=str(trial.baseline_id), design="alternated", ours=None, theirs=observed(2)
        ),
    )


def simulated_sweep(
    seed: int, monkeypatch: pytest.MonkeyPatch, count: int = 120
) -> tuple[SimulatedRay, list[TrialResult]]:
    """Trials of three kinds; nodes join and die, agents are killed, others measure there too."""
    monkeypatch.setattr(agent_module, "_restore_thread_setting", lambda: None)
    dice = random.Random(seed)
    ray = SimulatedRay(dice)

    def work(trial: Trial, *, attempt: int, isolated: bool, emit: Emit) -> TrialResult:
        emit(Event(trial_id=trial.trial_id, stage="measure", message="process 1"))
        if dice.random() < 0.03:
            raise RuntimeError("a bug of the agent's")
        return TrialResult(
            trial_id=trial.trial_id,
            labels=trial.labels,
            outcome=Outcome.OK,
            processes=tuple(pair_of(trial, ray.where) for _ in range(PAIRS)),
            attempt=attempt,
            baseline_id=trial.baseline_id,
        )

    for slots in ({"a": 1}, {"a": 1, "b": 1}, {"b": 1, "c": 1}, {"a": 2}, {"c": 1}):
        ray.join(slots)
    for _ in range(12):
        ray.after(dice.uniform(0, 300), ray.replace_a_node)
        ray.after(dice.uniform(0, 300), ray.kill_an_agent)
        ray.after(dice.uniform(0, 300), ray.let_somebody_else_measure)
    trials = [
        Trial(
            trial_id=f"t{number}",
            labels={"hardware_kind": dice.choice("abc")},
            spec={"s": dice.lognormvariate(1.5, 0.8)},
            baseline_id="b",
        )
        for number in range(count)
    ]
    inbox = SimpleNamespace(put=ray.put_answer, get=ray.get_answer, get_nowait=ray.get_answer_now)
    fleet = RayFleet(ray, work, QuietAutoscaler(), inbox=inbox, now_s=lambda: ray.clock_s)
    groups = dispatch(trials, fleet, _ignore, LIMITS, lambda: ray.clock_s)
    results = list(itertools.chain.from_iterable(groups))
    fleet.close()
    assert Counter(r.trial_id for r in results) == Counter(t.trial_id for t in trials)
    return ray, results


def _ignore(event: Event) -> None:
    del event


@pytest.mark.parametrize("seed", range(10))
def test_no_two_trials_overlap_on_a_slot_whatever_joins_or_dies(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray, _ = simulated_sweep(seed, monkeypatch)
    assert all(machine.most <= machine.slots for machine in ray.machines)
    assert max(machine.most for machine in ray.machines) == 2  # where two slots were announced
    assert len(ray.begun) > 120  # trials were begun again


def test_a_pair_never_spans_nodes_and_is_redone_whole_after_a_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = 0
    for seed in range(5):
        ray, results = simulated_sweep(seed, monkeypatch)
        last = {trial_id: (attempt, node) for trial_id, attempt, node in ray.begun}
        for result in (result for result in results if result.outcome is Outcome.OK):
            nodes = {process.facts["node"] for process in result.processes}
            assert (result.attempt, *nodes) == last[result.trial_id]
            assert len(result.processes) == PAIRS
            assert {p.paired.baseline_id for p in result.processes if p.paired} == {"b"}
            again += result.attempt > 1
    assert again > 20


def test_a_trial_carries_all_that_its_baseline_is_made_of(composer: Composer) -> None:
    """So the node that measures it needs no other trial, nor its result."""
    from benchorch.run.planner import plan_jobs

    words = ["model=mlp", "conversion=onnxruntime", "recorder=none", "workload.batch_size=[1,8]"]
    plan = plan_jobs(composer, [words], "p").plan
    by_id = {trial.trial_id: trial for trial in plan.trials}
    compared = [trial for trial in plan.trials if trial.baseline_id]
    assert len(compared) == 2
    for trial in compared:
        baseline = by_id[str(trial.baseline_id)]
        assert {**trial.spec, "conversion": trial.baseline_conversion} == baseline.spec


# O4


@pytest.mark.parametrize(
    ("trials", "nodes", "most"), one_in(2, [(3_000, 300, 1.03), (10_000, 100, 1.02)])
)
def test_the_makespan_is_near_its_lower_bound_although_durations_are_guessed(
    trials: int, nodes: int, most: float
) -> None:
    scheduling = benchmark("scheduling")
    sweep = scheduling.make_sweep(trials, nodes, 7)
    seen = scheduling.run_policy("guessed", sweep, 7)
    assert seen.makespan_s <= most * sweep.bound_s
    assert seen.held_s <= 1.03 * sweep.work_s
    assert seen.builds == len(sweep.build_s)
    naive = scheduling.run_policy("alone", sweep, 7)
    assert seen.held_s <= 0.65 * naive.held_s


def test_failures_and_lost_nodes_stretch_the_makespan_little_and_build_nothing_twice() -> None:
    scheduling = benchmark("scheduling")
    sweep = scheduling.make_sweep(5_000, 50, 7)
    seen = scheduling.run_policy("faulty", sweep, 7)
    assert scheduling.stretch("faulty", sweep, seen) <= 1.10
    assert (seen.builds, seen.most_builds) == (len(sweep.build_s), 1)
    assert seen.failed > 0.02 * 5_000  # that it was hard enough
    assert seen.lost > 0


def test_the_same_seed_gives_the_same_schedule() -> None:
    scheduling = benchmark("scheduling")

    def schedule(seed: int) -> object:
        sweep = scheduling.make_sweep(400, 20, seed)
        return scheduling.run_policy("guessed", sweep, seed).log

    assert schedule(3) == schedule(3)
    assert schedule(3) != schedule(4)


# O5

SESSION: dict[str, Json] = {
    "tracking": {"_target_": "benchorch.recorders.none.Nowhere"},
    "store": {},
    "rebuild": "if_needed",
    "cwd": ".",
}
DURABLE = ("fsync", "replace", "open", "pwrite", "ftruncate", "mkdir")


@dataclass(frozen=True)
class Noting(Executor):
    """Runs trials in turn and notes each beginning on disk."""

    diary: Path

    def unreachable(self, hardware_kind: str) -> str | None:
        return None

    def run(self, trials: Sequence[Trial], work: TrialRunner, emit: Emit) -> Iterator[TrialResult]:
        for trial in trials:
            with self.diary.open("a") as file:
                file.write(f"{trial.trial_id}\n")
            yield TrialResult(
                trial_id=trial.trial_id,
                labels=trial.labels,
                outcome=Outcome.OK,
                processes=(pair_of(trial, "here"),),
            )

    def begun(self) -> Counter[str]:
        return Counter(self.diary.read_text().split() if self.diary.exists() else ())


class NotingTogether(Noting):
    """All results at the same time, as of several nodes."""

    def run_grouped(
        self, trials: Sequence[Trial], work: TrialRunner, emit: Emit
    ) -> Iterator[Sequence[TrialResult]]:
        yield list(self.run(trials, work, emit))


def run_plan(composer: Composer, directory: Path, executor: Executor) -> None:
    from io import StringIO

    from rich.console import Console

    from benchorch.results.report.console import ConsoleReport
    from benchorch.run.invocation import Invocation

    labels = {"model": "m", "conversion": "c", "hardware": "h", "hardware_kind": "h"}
    labels |= {"workload": "", "axes": "", "scenario": "s"}
    trials = tuple(Trial(trial_id=f"t{i}", labels=labels, spec={}) for i in range(3))
    plan = Plan(plan_id="p", name="n", trials=trials, skips=(), session=SESSION)
    invocation = Invocation(
        composer=composer,
        directory=directory,
        report=ConsoleReport(Console(file=StringIO())),
        plan_id="p",
    )
    invocation.open()
    invocation.run_plan(plan, executor)
    assert invocation._lock is not None
    invocation._lock.close()


def killed_at(call: int, act: Callable[[], None]) -> bool:
    """Whether a process that does this is killed at so many calls that change the disk."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == signal.SIGKILL
    left = itertools.count(call, -1)

    def dying(real: Callable[..., object]) -> Callable[..., object]:
        def step(*arguments: object, **keywords: object) -> object:
            if next(left) == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **keywords)

        return step

    for name in DURABLE:
        setattr(os, name, dying(getattr(os, name)))
    try:
        act()
    finally:
        os._exit(0)


@pytest.mark.parametrize(("executor_type", "in_flight"), [(Noting, 1), (NotingTogether, 3)])
@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_a_driver_killed_anywhere_repeats_no_finished_trial_and_loses_none(
    step: int,
    executor_type: type[Noting],
    in_flight: int,
    composer: Composer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    # What a killed process wrote is kept without the disk: waiting for it would only take time.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    run = partial(run_plan, composer)
    # What is imported, children need not.
    run(tmp_path / "unharmed", executor_type(tmp_path / "diary"))
    killed, redone = True, 0
    for call in itertools.count(step=step):
        directory, executor = tmp_path / str(call), executor_type(tmp_path / f"{call}.diary")
        killed = killed_at(call, partial(run, directory, executor))
        finished = {
            line["trial_id"] for line in run_directory.read_lines(directory / run_directory.RESULTS)
        }
        run(directory, executor)
        results = reader.read_results(directory)
        assert sorted(result.trial_id for result in results) == ["t0", "t1", "t2"]
        assert all(process.observations.durations_ns for r in results for process in r.processes)
        repeated = {trial_id for trial_id, count in executor.begun().items() if count > 1}
        assert len(repeated) <= in_flight
        assert not repeated & finished
        redone += len(repeated)
        if not killed:
            break
    assert call > 20
    assert redone > 5 // step


@dataclass
class Ending(Executor):
    """Knows whether it was ended."""

    ended: bool = False

    def unreachable(self, hardware_kind: str) -> str | None:
        return None

    def run(self, trials: Sequence[Trial], work: TrialRunner, emit: Emit) -> Iterator[TrialResult]:
        try:
            for trial in trials:
                yield TrialResult(trial_id=trial.trial_id, labels=trial.labels, outcome=Outcome.OK)
        finally:
            self.ended = True


def test_an_executor_ends_at_once_when_a_result_cannot_be_kept(
    composer: Composer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "run" / run_directory.RESULTS).mkdir(parents=True)  # as good as a full disk
    executor = Ending()
    with pytest.raises(RecordError, match="could not be written") as kept:
        run_plan(composer, tmp_path / "run", executor)
    assert executor.ended, kept  # although the exception still refers to it


# O6

WORDS = ["model=mlp", "conversion=aot_inductor", "recorder=none"]
FACTS: dict[str, Json] = {
    "arch": "x86_64",
    "cpu_isa": ["avx2"],
    "compute_capability": None,
    "threads": 4,
}


def chain_of(composer: Composer, *words: str) -> TrialSetup:
    return open_trial(composer.cells([*WORDS, *words])[0].config)


@pytest.fixture(scope="module")
def plain(composer: Composer) -> TrialSetup:
    """What others are compared with; composing it takes a tenth of a second."""
    return chain_of(composer)


def key_of(chain: TrialSetup, facts: Mapping[str, Json] = FACTS) -> str:
    identity = chain.model.identity()
    assert identity is not None
    return chain.key(identity, len(chain.steps), facts).digest


@pytest.mark.parametrize(
    "word",
    [
        "model.widths=[256,9]",
        "workload.seed=1",
        "workload.batch_size=2",
        "workload.dynamic=[batch_size]",
        "workload.dtype=float64",
        "conversion.steps.aot_inductor.freezing=true",
        "conversion.steps.export.strict=true",
        "+model.kwargs={scale:2}",
        "conversion=export",
    ],
)
def test_whatever_changes_the_files_changes_the_key(
    composer: Composer, plain: TrialSetup, word: str
) -> None:
    assert key_of(plain) != key_of(chain_of(composer, word))


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("arch", "aarch64"),
        ("cpu_isa", ["avx2", "avx512f"]),
        ("compute_capability", "8.6"),
        ("threads", 2),
    ],
)
def test_what_a_compiler_takes_from_the_hardware_changes_the_key(
    plain: TrialSetup, fact: str, value: Json
) -> None:
    assert key_of(plain) != key_of(plain, {**FACTS, fact: value})


def test_a_changed_package_or_step_changes_the_key(
    composer: Composer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchorch.host import environment

    chain = chain_of(composer)
    before = key_of(chain)
    with monkeypatch.context() as patch:
        patch.setattr(environment, "package_versions", lambda names: dict.fromkeys(names, "9.9"))
        assert key_of(chain) != before
    with monkeypatch.context() as patch:
        step = type(chain.steps[-1][1])
        patch.setattr(step, "version", step.version + 1)
        assert key_of(chain) != before
    assert key_of(chain) == before


def test_one_byte_of_the_weights_changes_the_key_and_touching_the_file_does_not(
    composer: Composer, tmp_path: Path
) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    path = tmp_path / "weights.safetensors"
    save_file({"0.weight": np.zeros((4, 4), dtype=np.float32)}, path)
    chain = chain_of(composer, f"model.checkpoint={path}")
    before = key_of(chain)
    os.utime(path, ns=(1, 1))
    assert key_of(chain) == before
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    assert key_of(chain) != before


def test_the_users_own_code_changes_the_key_and_touching_it_does_not(
    composer: Composer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchorch.frameworks.module_fingerprint import content_of

    source = tmp_path / "a_users_own_model.py"
    text = "import torch\n\nclass Net(torch.nn.Linear):\n    factor = 2\n"
    monkeypatch.syspath_prepend(tmp_path)
    chain = chain_of(composer)

    def key() -> str:
        import torch

        sys.modules.pop("a_users_own_model", None)
        importlib.invalidate_caches()
        torch.manual_seed(0)
        net = importlib.import_module("a_users_own_model").Net(2, 2)
        return chain.key(content_of(net).fields, 1, FACTS).digest

    try:
        source.write_text(text)
        before = key()
        os.utime(source, ns=(1, 1))
        assert key() == before
        source.write_text(text.replace("factor = 2", "factor = 3 "))
        assert key() != before
    finally:
        sys.modules.pop("a_users_own_model", None)


@pytest.mark.parametrize(
    "word",
    [
        "stopping=quick",
        "parity.inputs=5",
        "protocol.pin=false",
        "baseline=null",
        "name=another",
        "conversion.tolerance_ratio=0.5",
        "hardware.conversions=[eager]",
    ],
)
def test_how_it_is_measured_leaves_the_key_alone(
    composer: Composer, plain: TrialSetup, word: str
) -> None:
    assert key_of(plain) == key_of(chain_of(composer, word))


def test_the_order_of_configuration_keys_leaves_the_key_alone(composer: Composer) -> None:
    config = composer.cells(WORDS)[0].config

    def turned(node: Json) -> Json:
        if not isinstance(node, Mapping):
            return node
        return {key: turned(node[key]) for key in reversed(list(node))}

    turned_over = dict(config)
    for key in ("model", "workload", "hardware"):
        turned_over[key] = turned(config[key])
    assert key_of(open_trial(turned_over)) == key_of(open_trial(config))
