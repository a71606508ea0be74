"""A sweep in a process of its own, to be killed: everything is real but what its trials measure.

Pipeline, journal, recorder, executor, store and supervisor are benchorch's. A trial obtains an
artifact from the store and runs a supervised child, which works, hangs, dies or hoards memory.

Run: python coordinator.py DRILL.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from benchorch.config.composer import Composer, config_loader
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import ExecutorError
from benchorch.executors.ray import RayExecutor
from benchorch.interfaces.executor import Emit, Executor, TrialRunner
from benchorch.results.report.console import ConsoleReport
from benchorch.run.invocation import Invocation

CHILD = """
import ctypes, signal, subprocess, sys, time
from benchorch.host.processes.child_channel import Channel, die_with_parent, read_request
die_with_parent()
asked, channel = read_request(dict), Channel()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])  # as compilers do
if asked["acts"] == "hangs":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
if asked["acts"] == "segfaults":
    ctypes.string_at(0)
kept = [bytearray(20_000_000) for _ in range(20 if asked["acts"] == "hoards" else 0)]
time.sleep(600 if kept else asked["takes_s"])
channel.send_reply({"answer": asked["asks"] * 2})
"""


def simulated_work(place: Mapping[str, Any]) -> TrialRunner:
    """Simulated trials with a history; shipped by value, because agents have no tests."""
    child_code = CHILD

    def work(trial: Trial, *, attempt: int, isolated: bool, emit: Emit) -> TrialResult:
        import json
        import os
        import socket
        import sys
        import time
        from pathlib import Path

        import ray  # noqa: TID251  (drills are of Ray's room)

        from benchorch.config.components import make
        from benchorch.domain.artifact import BuildKey, Format
        from benchorch.domain.result import BuildRecord, Failure, Outcome, TrialResult
        from benchorch.domain.session import Event
        from benchorch.errors import StoreError
        from benchorch.host.processes.run_child import ChildLimits, run_child
        from benchorch.interfaces.store import Store

        spec: Any = trial.spec

        def note(what: str, **more: object) -> None:
            node = ray.get_runtime_context().get_node_id()
            line = {"what": what, "trial": trial.trial_id, "attempt": attempt, "node": node}
            who = {"host": socket.gethostname(), "pid": os.getpid()}
            with Path(place["history"]).open("a") as file:
                file.write(json.dumps({**line, **who, **more}) + "\n")

        def build(out: Path) -> None:
            note("make", artifact=spec["artifact"])
            time.sleep(spec["builds_s"])
            (out / "weights.bin").write_bytes(spec["artifact"].encode() * 1000)
            note("made", artifact=spec["artifact"])

        def result(failure: Failure | None, **more: Any) -> TrialResult:
            labels = {**trial.labels, "answer": str(more.pop("answer", ""))}
            timed_out = failure is not None and failure.kind == "timeout"
            outcome = Outcome.TIMEOUT if timed_out else Outcome.FAILED if failure else Outcome.OK
            return TrialResult(
                trial_id=trial.trial_id, labels=labels, outcome=outcome, failure=failure, **more
            )

        note("begin")
        emit(Event(trial_id=trial.trial_id, stage="measure", message=f"attempt {attempt}"))
        key = BuildKey(fields={"artifact": spec["artifact"]})
        try:
            artifact, built = make(place["store"], Store, "store").build(
                key, format=Format.ONNX, name=spec["artifact"], make=build
            )
        except StoreError as error:
            kind = "disk_full" if "disk full" in str(error) else "store"
            return result(Failure(stage="build", kind=kind, message=str(error)))
        content = (artifact.path / "weights.bin").read_bytes()
        assert content == spec["artifact"].encode() * 1000
        answered = run_child(
            "measure",
            spec,
            dict[str, Any],
            log=Path(place["directory"], f"{trial.trial_id}.log"),
            limits=ChildLimits(timeout_s=spec["limit_s"], memory_bytes=300 * 2**20),
            environment={place["mark"]: "1"},
            on_message=lambda message: None,
            command=[sys.executable, "-c", child_code],
        )
        note("end")
        record = BuildRecord(
            key=key.digest,
            cache="miss" if built else "hit",
            build_s=spec["builds_s"],
            original_build_s=spec["builds_s"],
            artifact_bytes=len(content),
            model_digest="",
        )
        reply: Any = answered.reply or {}
        return result(answered.failure, build=record, answer=reply.get("answer", ""))

    return work


class SimulatedTrials(Executor):
    """The Ray executor with simulated trials."""

    def __init__(self, place: Mapping[str, Any]) -> None:
        self._place = place
        self._ray = RayExecutor(
            address=place["address"], wait_s=place["wait_s"], start_s=place["start_s"]
        )

    def unreachable(self, hardware_kind: str) -> str | None:
        return self._ray.unreachable(hardware_kind)

    def run(self, trials: Any, work: TrialRunner, emit: Emit) -> Any:
        return self._ray.run(trials, simulated_work(self._place), emit)

    def run_grouped(self, trials: Any, work: TrialRunner, emit: Emit) -> Any:
        return self._ray.run_grouped(trials, simulated_work(self._place), emit)


def plan_of(place: Mapping[str, Any]) -> Plan:
    trials = []
    for number, spec in enumerate(place["trials"]):
        labels = dict.fromkeys(("model", "conversion", "workload", "scenario", "axes"), "simulated")
        labels |= {"hardware": spec["kind"], "hardware_kind": spec["kind"]}
        labels["axes"] = f"{spec['acts']} {number}"
        trials.append(Trial(trial_id=f"{number:016x}", labels=labels, spec=spec))
    session = {
        "tracking": place["tracking"],
        "store": {},
        "rebuild": "if_needed",
        "cwd": ".",
        "objective": "latency_ms/p50",
    }
    return Plan(plan_id="drill", name="drill", trials=tuple(trials), skips=(), session=session)


def main(path: str) -> int:
    from rich.console import Console

    place = json.loads(Path(path).read_text())
    invocation = Invocation(
        composer=Composer(config_loader()),
        directory=Path(place["directory"]),
        report=ConsoleReport(Console(file=StringIO())),
        plan_id="drill",
    )
    invocation.open()
    try:
        invocation.run_plan(plan_of(place), SimulatedTrials(place))
    except ExecutorError as error:  # as the command line does
        invocation.cut_short()
        print(error, file=sys.stderr)
        return 1
    return invocation.close(complete=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
