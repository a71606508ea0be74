"""The Ray executor on a real cluster of several nodes on this machine."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError
from benchorch.executors.ray import RayExecutor
from benchorch.host.environment import physical_cores
from benchorch.interfaces.executor import TrialRunner
from support.ray_machines import Machines, ray_settings
from support.waiting import until

pytestmark = pytest.mark.ray_cluster


@pytest.fixture(scope="module", autouse=True)
def _ray_settings() -> Iterator[None]:
    with ray_settings():
        yield


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def trial(name: str, kind: str, **spec: Any) -> Trial:
    return Trial(trial_id=name, labels={"hardware_kind": kind}, spec=spec)


def working(history: Path) -> TrialRunner:
    """Work that writes down where and when it ran; carries itself to nodes that have no tests.

    It takes `s` seconds, or `first_s` in its first attempt; no less than until so many as
    `together` have begun and the file `until` is there, however long a busy machine takes.
    """

    def work(trial: Trial, *, attempt: int, isolated: bool, emit: Any) -> TrialResult:
        import json
        import os
        import signal
        import subprocess
        import sys

        import ray  # noqa: TID251

        from benchorch.domain.result import Outcome, TrialResult
        from benchorch.domain.session import Event

        def note(what: str, **more: object) -> None:
            node = ray.get_runtime_context().get_node_id()
            line = {"what": what, "trial": trial.trial_id, "node": node, "attempt": attempt}
            with history.open("a") as file:
                file.write(json.dumps({**line, "at_s": time.monotonic(), **more}) + "\n")

        spec = trial.spec
        seconds = spec.get("first_s", spec["s"]) if attempt == 1 else spec["s"]
        child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({seconds})"])

        def may_end() -> bool:
            begun = history.read_text().count('"what": "begin"')
            return begun >= spec.get("together", 0) and Path(spec.get("until", "/")).exists()

        names = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "BENCHORCH_PART")
        variables = {name: os.environ.get(name) for name in names}
        cpus = sorted(os.sched_getaffinity(child.pid))
        nice = os.getpriority(os.PRIO_PROCESS, child.pid)
        note("begin", pids=[os.getpid(), child.pid], variables=variables, nice=nice, cpus=cpus)
        emit(Event(trial_id=trial.trial_id, stage="measure", message="begun"))
        if spec.get("dies_in_attempt") == attempt:
            os.kill(os.getpid(), signal.SIGKILL)
        if "raises" in spec:
            raise RuntimeError(str(spec["raises"]))
        child.wait()
        patience_s = time.monotonic() + 300
        while not may_end() and time.monotonic() < patience_s:
            time.sleep(0.05)
        note("end")
        return TrialResult(
            trial_id=trial.trial_id, labels=trial.labels, outcome=Outcome.OK, attempt=attempt
        )

    return work


def entries(history: Path, what: str) -> list[dict[str, Any]]:
    lines = history.read_text().splitlines() if history.exists() else []
    return [entry for entry in map(json.loads, lines) if entry["what"] == what]


def spans(history: Path) -> dict[str, list[tuple[float, float]]]:
    """When trials ran on each node, from beginning to end."""
    ends = {entry["trial"]: entry["at_s"] for entry in entries(history, "end")}
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for entry in entries(history, "begin"):
        found[entry["node"]].append((entry["at_s"], ends[entry["trial"]]))
    return found


def overlap(taken: list[tuple[float, float]]) -> bool:
    return any(before[1] > after[0] for before, after in itertools.pairwise(sorted(taken)))


def executor(machines: Machines, *, wait_s: float = 240, start_s: float = 240) -> RayExecutor:
    return RayExecutor(address=machines.address, wait_s=wait_s, start_s=start_s)


def run(
    chosen: RayExecutor, trials: Sequence[Trial], history: Path
) -> tuple[dict[str, TrialResult], list[Event]]:
    events: list[Event] = []
    results = list(chosen.run(trials, working(history), events.append))
    assert len(results) == len({result.trial_id for result in results}) == len(trials)
    return {result.trial_id: result for result in results}, events


def meanwhile(condition: Callable[[], object], act: Callable[[], object]) -> threading.Thread:
    """Does something on the side as soon as a condition holds."""

    def watch() -> None:
        if until(condition, 400):
            act()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_trials_run_on_nodes_of_their_kind_and_never_two_at_once_on_one(
    machines: Machines, history: Path
) -> None:
    # None ends before all three nodes work.
    trials = [trial(f"a{i}", "a", s=0.2, together=3) for i in range(8)]
    trials += [trial(f"b{i}", "b", s=0.2, together=3) for i in range(3)]
    results, _ = run(executor(machines), trials, history)
    assert {result.outcome for result in results.values()} == {Outcome.OK}

    for entry in entries(history, "begin"):
        kind = results[entry["trial"]].labels["hardware_kind"]
        assert f"benchorch:{kind}" in machines.kinds(entry["node"])
    assert len(spans(history)) == 3
    assert not any(map(overlap, spans(history).values()))


def test_a_node_with_two_gpus_measures_two_trials_each_on_its_gpu_and_half_the_cores(
    machines: Machines, history: Path
) -> None:
    node = machines.add("gpu-2", slots=2, num_gpus=2)
    trials = [trial(f"t{i}", "gpu-2", s=0.2, together=2) for i in (0, 1)]
    results, _ = run(executor(machines), trials, history)
    machines.kill(node)
    assert {result.outcome for result in results.values()} == {Outcome.OK}
    assert overlap(spans(history)[node])
    one, other = entries(history, "begin")
    seen = {one["variables"]["CUDA_VISIBLE_DEVICES"], other["variables"]["CUDA_VISIBLE_DEVICES"]}
    assert seen == {"0", "1"}
    for entry in (one, other):
        gpu = int(entry["variables"]["CUDA_VISIBLE_DEVICES"])
        assert entry["variables"]["BENCHORCH_PART"] == f"{gpu + 1}/2"
    if physical_cores() >= 2:
        assert not set(one["cpus"]) & set(other["cpus"])
        assert len(one["cpus"]) == len(other["cpus"])


def test_what_a_trial_says_arrives_while_it_runs(machines: Machines, history: Path) -> None:
    heard: list[tuple[str, int]] = []
    said = history.with_name("said")

    def hear(event: Event) -> None:
        if event.stage != "wait":  # for an agent, where the machine is busy
            heard.append((event.message, len(entries(history, "end"))))
            said.touch()

    talking = trial("talks", "b", s=0, until=str(said))
    list(executor(machines).run([talking], working(history), hear))
    assert heard == [("begun", 0)]


def test_a_kind_the_cluster_lacks_is_reported_with_what_it_has_and_what_to_start(
    machines: Machines, history: Path
) -> None:
    trials = [trial("lacks", "gpu-x", s=0), trial("fine", "b", s=0)]
    results, _ = run(executor(machines, wait_s=2), trials, history)
    assert results["fine"].outcome is Outcome.OK
    failure = results["lacks"].failure
    assert failure is not None
    assert (failure.stage, failure.kind) == ("schedule", "no_node")
    assert "it has: a, b" in failure.message
    assert '"benchorch:gpu-x": 1' in failure.remedy


def test_a_slot_that_another_sweep_holds_is_not_shared(machines: Machines, history: Path) -> None:
    import ray  # noqa: TID251

    ray.init(address=machines.address, log_to_driver=False)
    try:
        other = ray.remote(type("Other", (), {"here": lambda self: True}))
        held = other.options(num_cpus=0, resources={"benchorch:b": 1}).remote()
        ray.get(held.here.remote())
        results, _ = run(executor(machines, start_s=3), [trial("t", "b", s=0)], history)
    finally:
        ray.shutdown()
    failure = results["t"].failure
    assert failure is not None
    assert failure.kind == "no_node"
    assert "perhaps by another sweep" in failure.message
    assert entries(history, "begin") == []


def test_a_trial_whose_agent_is_killed_is_begun_again(machines: Machines, history: Path) -> None:
    results, events = run(executor(machines), [trial("t", "b", s=0.2, dies_in_attempt=1)], history)
    assert (results["t"].outcome, results["t"].attempt) == (Outcome.OK, 2)
    assert [event.stage for event in events if event.stage == "retry"] == ["retry"]


def test_work_that_raises_is_reported_and_the_agent_goes_on(
    machines: Machines, history: Path
) -> None:
    trials = [trial("bad", "b", s=0, raises="a bug of ours"), trial("good", "b", s=0)]
    results, _ = run(executor(machines), trials, history)
    failure = results["bad"].failure
    assert failure is not None
    assert failure.kind == "agent_failed"
    assert "a bug of ours" in failure.message
    assert results["good"].outcome is Outcome.OK


def test_closing_early_ends_what_was_started(machines: Machines, history: Path) -> None:
    trials = [trial("quick", "b", s=0), trial("slow", "b", s=600)]
    results = executor(machines).run(trials, working(history), lambda event: None)
    assert next(results).trial_id == "quick"
    assert until(lambda: len(entries(history, "begin")) == 2, 400)
    results.close()  # type: ignore[attr-defined]
    pids = [pid for entry in entries(history, "begin") for pid in entry["pids"]]
    assert until(lambda: not any(map(running, pids)), 400)


def test_a_node_that_joins_late_is_used_for_both_its_kinds_one_trial_at_a_time(
    machines: Machines, history: Path
) -> None:
    """It has a GPU, which a trial's child sees, and none of Ray's limits."""
    late: list[str] = []

    def hear(event: Event) -> None:
        if not late:
            late.append(machines.add("gpu-a", "cpu-c", num_gpus=1))

    kinds = {"early": "b"} | {f"t{i}": kind for i, kind in enumerate(["gpu-a", "cpu-c"] * 2)}
    trials = [trial(name, kind, s=0 if name == "early" else 0.2) for name, kind in kinds.items()]
    results = list(executor(machines).run(trials, working(history), hear))
    machines.kill(late[0])
    assert results[0].trial_id == "early"
    assert {r.trial_id: r.outcome for r in results} == dict.fromkeys(kinds, Outcome.OK)

    begun = entries(history, "begin")
    assert {entry["node"] for entry in begun if entry["trial"] != "early"} == {*late}
    assert not overlap(spans(history)[late[0]])
    seen = {entry["trial"]: entry for entry in begun}
    for name in ("t0", "t2"):
        assert seen[name]["variables"] == {
            "CUDA_VISIBLE_DEVICES": "0",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
            "BENCHORCH_PART": None,
        }
        if os.geteuid() == 0:  # others may not raise a priority again
            assert seen[name]["nice"] == os.getpriority(os.PRIO_PROCESS, 0)


def test_a_node_that_dies_in_mid_trial_loses_the_trial_to_another(
    machines: Machines, history: Path
) -> None:
    def kill_the_first() -> None:
        machines.kill(entries(history, "begin")[0]["node"])

    killer = meanwhile(lambda: entries(history, "begin"), kill_the_first)
    results, events = run(executor(machines), [trial("t", "a", s=0.2, first_s=90)], history)
    killer.join()
    first, second = entries(history, "begin")
    assert first["node"] != second["node"]
    assert (results["t"].outcome, results["t"].attempt) == (Outcome.OK, 2)
    assert "retry" in {event.stage for event in events}
    machines.add("a")


def test_when_every_node_of_a_kind_is_gone_the_sweep_says_so_and_ends(
    machines: Machines, history: Path
) -> None:
    def where_t1_runs() -> list[str]:
        return [entry["node"] for entry in entries(history, "begin") if entry["trial"] == "t1"]

    killer = meanwhile(where_t1_runs, lambda: machines.kill(where_t1_runs()[0]))
    trials = [trial("t1", "b", s=60), trial("t2", "b", s=0), trial("t3", "a", s=0)]
    results, _ = run(executor(machines, wait_s=3), trials, history)
    killer.join()
    kinds = {name: r.failure.kind for name, r in results.items() if r.failure is not None}
    assert kinds == {"t1": "node_lost", "t2": "no_node"}
    assert results["t3"].outcome is Outcome.OK
    machines.add("b")


def test_a_connected_process_starts_no_second_cluster(machines: Machines, history: Path) -> None:
    import ray  # noqa: TID251

    ray.init(address=machines.address, log_to_driver=False)
    try:
        with pytest.raises(ConfigError, match="connected to a Ray cluster already"):
            list(RayExecutor().run([trial("t", "local", s=0)], working(history), print))
    finally:
        ray.shutdown()


LOCAL = """
import json, os, sys
import psutil
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Trial
from benchorch.executors.ray import RayExecutor

def main():
    def work(trial, *, attempt, isolated, emit):
        return TrialResult(trial_id=trial.trial_id, labels={"nice": str(os.nice(0))},
                           outcome=Outcome.OK)
    trials = [Trial(trial_id=str(i), labels={"hardware_kind": kind}, spec={})
              for i, kind in enumerate(["local", "local_gpu", "local"])]
    results = RayExecutor().run(trials, work, lambda event: None)
    print(json.dumps({r.trial_id: dict(r.labels) for r in results}))
    print(json.dumps([p.name() for p in psutil.Process().children(recursive=True)]))

main()
"""


def test_a_local_cluster_keeps_the_priority_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    variables = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    finished = subprocess.run(
        [sys.executable, "-c", LOCAL],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    results, left = map(json.loads, finished.stdout.splitlines())
    assert results.keys() == {"0", "1", "2"}
    labels = list(results.values())
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    assert labels == [{"nice": str(nice)}] * 3
    assert left == []
