"""A simulated fleet on this machine: launched by Ray's own autoscaler, and nothing is left."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.waiting import until

pytestmark = pytest.mark.ray_cluster

MARK = "FLEET_TEST"
SWEEP = """
import json, sys
import ray
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Trial
from benchorch.executors.ray import RayExecutor

seconds = json.loads(sys.argv[1])

def work(trial, *, attempt, isolated, emit):
    import os, pathlib, socket, time
    import psutil
    pathlib.Path(trial.trial_id).touch()
    time.sleep(trial.spec["s"])
    raylet = psutil.Process(os.getppid())
    outer = {c.laddr.ip for c in raylet.net_connections("inet") if c.status == "LISTEN"}
    told = {"kind": os.environ["BENCHORCH_HARDWARE_KIND"], "listens": " ".join(sorted(outer)),
            "node": ray.get_runtime_context().get_node_id()}
    return TrialResult(trial_id=trial.trial_id, labels=told, outcome=Outcome.OK)

WAITS = ("wait_s", "start_s", "spot_wait_s")

def main():
    trials = [Trial(trial_id=f"{kind}-{i}", labels={"hardware_kind": kind}, spec={"s": s})
              for kind, each in seconds.items() for i, s in enumerate(each)]
    executor = RayExecutor(rehearse=True, most=1, idle_s=2, **dict.fromkeys(WAITS, 900))
    for result in executor.run(trials, work, lambda event: None):
        alive = [node for node in ray.nodes() if node["Alive"]]
        kinds = [k for n in alive for k in n["Resources"] if k.startswith("benchorch:")]
        print(json.dumps([result.trial_id, result.outcome, dict(result.labels),
                          dict(result.environment), sorted(kinds)]), flush=True)

main()
"""


@pytest.fixture
def mark() -> Iterator[str]:
    """A word in the environment of everything that a test starts; at the end nobody has it."""
    word = secrets.token_hex(8)
    yield word
    for process in marked(word):
        process.kill()


def marked(word: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            told = process.environ().get(MARK) == word
            if told and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def start(
    directory: Path, word: str, seconds: dict[str, list[float]], program: str = SWEEP
) -> subprocess.Popen[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    return subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(seconds)],
        cwd=directory,
        env={**clean, MARK: word, "TMPDIR": "/tmp"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def swept(directory: Path, mark: str, seconds: dict[str, list[float]]) -> list[list[Any]]:
    """What is told of each trial, in the order in which they ended; no process is left."""
    sweep = start(directory, mark, seconds)
    out, err = sweep.communicate(timeout=1000)
    assert sweep.returncode == 0, err
    told = [json.loads(line) for line in out.splitlines()]
    assert {line[0] for line in told} == {
        f"{kind}-{number}" for kind, each in seconds.items() for number in range(len(each))
    }
    for name, outcome, labels, environment, _ in told:
        assert outcome == "ok"
        assert labels["kind"] == name.rpartition("-")[0]
        assert (environment["market"], environment["rehearsed"]) == ("spot", True)
        assert set(labels["listens"].split()) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert until(lambda: not marked(mark), 300), marked(mark)
    return told


def test_a_machine_comes_from_nothing_and_is_gone_at_the_end(tmp_path: Path, mark: str) -> None:
    swept(tmp_path, mark, {"r6i.large": [0]})


@pytest.mark.slow
def test_two_kinds_come_from_nothing_and_go_when_they_are_idle(tmp_path: Path, mark: str) -> None:
    told = swept(tmp_path, mark, {"r6i.large": [0, 0], "c7i.large": [20]})
    nodes = {name.partition("-")[0]: labels["node"] for name, _, labels, _, _ in told}
    assert len(set(nodes.values())) == 2
    # r6i had nothing to do for long before c7i was done, so its machine is gone by then.
    assert told[-1][0] == "c7i.large-0"
    assert told[-1][4] == ["benchorch:c7i.large"]


BUDGET = """
import pathlib, time
import ray
from benchorch.domain.price import Market, Price, PriceSnapshot
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.session import Session
from benchorch.domain.spending import SpendingRules
from benchorch.domain.trial import Trial
from benchorch.executors.ray import RayExecutor
from benchorch.executors.scheduling import spending

spending.LAUNCH_S = spending.END_S = 5.0  # simulated machines need no more
KIND = "r6i.large"
price = Price(kind=KIND, market=Market.ON_DEMAND, usd_per_hour=3600, region="x", as_of="x",
              source="config")

class Work:
    session = Session(plan_id="p", directory=pathlib.Path.cwd(), store={}, rebuild="if_needed",
                      prices=PriceSnapshot(on_demand={KIND: price}),
                      spending=SpendingRules(max_usd=60.0))

    def __call__(self, trial, *, attempt, isolated, emit):
        time.sleep(trial.spec["s"])
        return TrialResult(trial_id=trial.trial_id, labels={}, outcome=Outcome.OK)

WAITS = ("wait_s", "start_s", "spot_wait_s")

def main():
    trials = [Trial(trial_id=n, labels={"hardware_kind": KIND}, spec={"s": s, "stopping": {
        "budget_s": 5}}) for n, s in (("short", 0), ("endless", 900))]
    executor = RayExecutor(rehearse=True, most=1, idle_s=900, wait_s=240, start_s=240)
    spent = []
    for result in executor.run(trials, Work(), lambda e: spent.append(e.spending)):
        why = result.failure.kind if result.failure else "ok"
        until_s = time.monotonic() + 90
        while why != "ok" and time.monotonic() < until_s:
            alive = [n for n in ray.nodes() if n["Alive"] and f"benchorch:{KIND}" in n["Resources"]]
            if not alive:
                break
            time.sleep(0.5)
        print(result.trial_id, why, len(alive) if why != "ok" else "")
    print(max(one.usd for one in spent if one))

main()
"""


@pytest.mark.slow
def test_a_budget_ends_the_endless_trial_and_its_machine(tmp_path: Path, mark: str) -> None:
    """Ray's autoscaler terminates the drained node, which it would keep idle for 900 s."""
    sweep = start(tmp_path, mark, {}, BUDGET)
    out, err = sweep.communicate(timeout=400)
    assert sweep.returncode == 0, err
    short, endless, usd = out.splitlines()
    assert short.split() == ["short", "ok"]
    assert endless.split() == ["endless", "budget_reached", "0"]
    assert float(usd) <= 60.0


@pytest.mark.slow
@pytest.mark.timeout(560)
def test_an_export_for_two_kinds_is_built_on_the_cheaper_one_and_found_by_both(place) -> None:
    done = place.run(
        *("model=mlp", "hardware=r6i,c7i", "conversion=onnxruntime", "executor=fleet_local", "-m"),
        *("stopping=fixed", "stopping.processes=2", "stopping.calls=5", "recorder=none"),
        *("profiler=none", "pricing.source=bundled", "hydra.sweep.dir=out", "executor.wait_s=400"),
    )
    assert "wait for a build on r6i.large: build building onnx" in done.stdout
    results = place.results("out")
    exported = [one["build"] for one in results if one["labels"]["conversion"] == "onnxruntime"]
    assert [build["steps"] for build in exported] == [{"onnx": "hit"}] * 2
    assert len({build["key"] for build in exported}) == 1
    (folder,) = (place.path / "out" / "trials").glob("ahead-*")
    assert (folder / "log.txt").is_file()
    assert len(results) == 4  # with eager on both: what is built ahead is no result
    log = place.run("logs", "out", folder.name).stdout
    assert "onnx" in log


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_goes_on_running_however_the_coordinator_ends(
    tmp_path: Path, mark: str, number: signal.Signals
) -> None:
    sweep = start(tmp_path, mark, {"r6i.large": [600]})
    assert until((tmp_path / "r6i.large-0").exists, 240)
    assert len(marked(mark)) > 5
    sweep.send_signal(number)
    sweep.communicate(timeout=100)
    assert until(lambda: not marked(mark), 60), marked(mark)


@pytest.mark.slow
def test_a_head_that_dies_ends_the_sweep_with_its_exit_reason(tmp_path: Path, mark: str) -> None:
    sweep = start(tmp_path, mark, {"r6i.large": [600]})
    assert until((tmp_path / "r6i.large-0").exists, 240)
    [server] = [each for each in marked(mark) if each.name() == "gcs_server"]
    server.kill()
    _, err = sweep.communicate(timeout=200)
    assert "has not responded" in err
    assert "It exited with: gcs_server ended with -9" in err
    assert until(lambda: not marked(mark), 60), marked(mark)


def test_the_watchdog_ends_other_sessions_too_and_removes_its_folder(
    tmp_path: Path, mark: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    deep = (
        "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', "
        + repr("import time; time.sleep(600)")
        + "], start_new_session=True); time.sleep(0 if 'go' in sys.argv else 600)"
    )
    watchdog = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "benchorch.executors.process_guard",
            str(folder),
            sys.executable,
            "-c",
            deep,
        ],
        stdin=subprocess.PIPE,
        env={**os.environ, MARK: mark},
        start_new_session=True,
    )
    assert until(lambda: len(marked(mark)) == 3, 240)
    assert watchdog.stdin is not None
    watchdog.stdin.close()
    assert watchdog.wait(300) == 0
    assert marked(mark) == []
    assert not folder.exists()
