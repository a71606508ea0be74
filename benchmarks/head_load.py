"""What a head can bear: 100 agents that work in no time, 10,000 trials, one driver.

The driver is this process with the real pipeline, dispatch loop and journal; nothing is recorded.
The agents live in a process of their own, behind the `Fleet` interface. They answer at once, with
results that tell of their machine as real ones do. Some are lost in mid-trial and replaced by new
ones, and half of those answer all the same, too late.

    throughput      trials from the first assignment to the last durable result, per second
    memory          the most that the driver ever held (VmHWM), the table at the end included
    dispatch alone  the same trials without the pipeline, so without the journal

Run: python benchmarks/head_load.py [TRIALS [AGENTS]]
"""

from __future__ import annotations

import itertools
import multiprocessing
import random
import resource
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path

from benchorch.config.composer import Composer, config_loader
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Plan, Trial
from benchorch.executors.scheduling.assignments import TaskAssignment
from benchorch.executors.scheduling.dispatcher import (
    Finished,
    Fleet,
    Joined,
    Lost,
    Message,
    NoCapacity,
    RetryLimits,
    TrialEvents,
    dispatch,
)
from benchorch.executors.scheduling.duration_forecast import PastDurations, forecasts
from benchorch.host.environment import describe_host
from benchorch.interfaces.executor import Emit, Executor, TrialRunner
from benchorch.journal import run_directory
from benchorch.results.report.console import ConsoleReport
from benchorch.run.invocation import Invocation

KINDS = ("c7i.large", "g5.xlarge", "g6.xlarge", "r6i.large")
LOST = 0.01  # of assignments, whose agent dies with them
MOST_MIB = 300
LIMITS = RetryLimits(max_attempts=3, wait_s=60, start_s=60)
SPEC_BYTES = 2000


def agents(pipe: Connection, names: Sequence[tuple[str, str]]) -> None:
    """The process of all agents: assignments in, answers out."""
    dice, numbers = random.Random(0), itertools.count()
    host, kinds = describe_host(), dict(names)
    pipe.send([Joined(agent=name, kinds=(kind,)) for name, kind in names])
    while (assignments := pipe.recv()) is not None:
        mail: list[Message] = []
        for assignment in assignments:
            if assignment.agent not in kinds:  # lost before it could begin
                continue
            if dice.random() < LOST:
                successor = f"{assignment.agent}'{next(numbers)}"
                kinds[successor] = kinds.pop(assignment.agent)
                mail.append(Lost(agent=assignment.agent, reason="its node is dead"))
                mail.append(Joined(agent=successor, kinds=(kinds[successor],)))
                if dice.random() < 0.5:
                    continue
            mail += answers(assignment, host)
        pipe.send(mail)


def answers(assignment: TaskAssignment, host: object) -> list[Message]:
    """What an agent says of a trial, and its result."""
    trial = assignment.trial
    said = TrialEvents(
        events=(Event(trial_id=trial.trial_id, stage="measure", message="process 1"),)
    )
    result = TrialResult(
        trial_id=trial.trial_id,
        labels=trial.labels,
        outcome=Outcome.OK,
        environment=dict(host),  # type: ignore[call-overload]
        stages_s={"measure": 0.0},
    )
    return [said, Finished(assignment=assignment, result=result, events=(), busy_s=0.0)]


class PipeFleet(Fleet):
    """Agents at the other end of a pipe; a turn's assignments travel together."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._assignments: list[TaskAssignment] = []
        self._mail: deque[Message] = deque()

    def request(self, queued: Mapping[str, int]) -> None:
        """All are there from the beginning."""

    def slots(self, kind: str) -> int:
        """Some."""
        return 1

    def no_capacity(self, kind: str) -> NoCapacity:
        """Never asked."""
        return NoCapacity(failure="no_node", reason=f"no node of {kind}", remedy="")

    def send(self, assignment: TaskAssignment) -> None:
        """With the others of this turn."""
        self._assignments.append(assignment)

    def receive(self, timeout_s: float) -> Sequence[Message]:
        """One agent's worth after the other, as answers arrive from a network."""
        if self._assignments:
            self._pipe.send(self._assignments)
            self._assignments = []
        return self._pipe.recv() if self._pipe.poll(timeout_s) else ()


class Simulated(Executor):
    """Trials on the agents of the other process; their work is not asked for."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def unreachable(self, hardware_kind: str) -> str | None:
        """Every kind is there."""
        return None

    def run(self, trials: Sequence[Trial], work: TrialRunner, emit: Emit) -> Iterator[TrialResult]:
        """Each result of the groups."""
        return itertools.chain.from_iterable(self.run_grouped(trials, work, emit))

    def run_grouped(
        self, trials: Sequence[Trial], work: TrialRunner, emit: Emit
    ) -> Iterator[Sequence[TrialResult]]:
        """As the Ray executor does it."""
        del work
        told = forecasts(trials, PastDurations())
        return dispatch(trials, self._fleet, emit, LIMITS, time.monotonic, told)


def make_plan(trials: int) -> Plan:
    made = []
    for number in range(trials):
        kind = KINDS[number % len(KINDS)]
        labels = dict.fromkeys(("model", "workload", "scenario", "conversion"), "no_op")
        labels |= {"hardware": kind, "hardware_kind": kind, "axes": f"n={number}"}
        spec = {"number": number, "padding": "x" * SPEC_BYTES}
        made.append(Trial(trial_id=f"{number:016x}", labels=labels, spec=spec))
    session = {
        "tracking": {"_target_": "benchorch.recorders.none.Nowhere"},
        "store": {},
        "rebuild": "if_needed",
        "cwd": ".",
        "objective": "latency_ms/p50",
    }
    return Plan(plan_id="load", name="load", trials=tuple(made), skips=(), session=session)


class Agents:
    """The other process, for as long as a sweep lasts."""

    def __init__(self, count: int) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        names = [(f"agent{n}", KINDS[n % len(KINDS)]) for n in range(count)]
        spawning = multiprocessing.get_context("spawn")
        self._process = spawning.Process(target=agents, args=(theirs, names), daemon=True)

    def __enter__(self) -> Fleet:
        self._process.start()
        if not self._pipe.poll(60):
            raise TimeoutError("the agents did not start")
        return PipeFleet(self._pipe)

    def __exit__(self, *_: object) -> None:
        self._pipe.send(None)
        self._process.join()


def dispatch_alone(plan: Plan, count: int) -> float:
    """Trials per second without a pipeline."""
    with Agents(count) as fleet:
        began_s = time.monotonic()
        results = list(Simulated(fleet).run(plan.trials, no_work, lambda event: None))
        taken_s = time.monotonic() - began_s
    assert len(results) == len({r.trial_id for r in results}) == len(plan.trials)
    return len(results) / taken_s


def no_work(trial: Trial, *, attempt: int, isolated: bool, emit: Emit) -> TrialResult:
    """Agents have their own."""
    raise NotImplementedError


def whole(plan: Plan, count: int, directory: Path) -> tuple[float, float, int]:
    """Seconds of the sweep, seconds until its table is there, and attempts beyond the first."""
    from rich.console import Console

    invocation = Invocation(
        composer=Composer(config_loader()),
        directory=directory,
        report=ConsoleReport(Console(file=StringIO())),
        plan_id=plan.plan_id,
    )
    invocation.open()
    with Agents(count) as fleet:
        began_s = time.monotonic()
        invocation.run_plan(plan, Simulated(fleet))
        swept_s = time.monotonic() - began_s
    code = invocation.close(complete=True)
    closed_s = time.monotonic() - began_s - swept_s
    assert code == 0
    again = sum(result.attempt > 1 for result in invocation.results.values())
    return swept_s, closed_s, again


def main(trials: int = 10_000, count: int = 100) -> None:
    """The full run."""
    plan = make_plan(trials)
    with tempfile.TemporaryDirectory() as root:
        directory = Path(root, "run")
        cpu_s = time.process_time()
        swept_s, closed_s, again = whole(plan, count, directory)
        cpu_s = time.process_time() - cpu_s
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        written = run_directory.read_lines(directory / run_directory.RESULTS)
        lines = Counter(str(line["trial_id"]) for line in written)
    lost = len({trial.trial_id for trial in plan.trials} - lines.keys())
    doubled = sum(times > 1 for times in lines.values())
    print(f"{trials} trials, {count} agents, {again} trials begun again after their agent was lost")
    print(f"throughput      {trials / swept_s:.0f} trials/s, each durable in the journal")
    print(f"dispatch alone  {dispatch_alone(plan, count):.0f} trials/s")
    print(f"closing         {closed_s:.1f} s for the table of {trials} rows")
    print(f"CPU             {cpu_s / trials * 1e3:.2f} ms a trial of the driver's")
    print(f"memory          {peak_mib:.0f} MiB at most; goal at most {MOST_MIB} MiB")
    print(f"results         {lost} lost, {doubled} doubled")
    if lost or doubled or peak_mib > MOST_MIB:
        sys.exit(1)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
