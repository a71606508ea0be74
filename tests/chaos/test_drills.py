"""Whatever dies, hangs or is cut off in mid-sweep, the results are those of an unbroken run.

What happens when, and to whom, is drawn from a seed. The default suite runs a part of one seed;
``make test-chaos SEEDS=3`` runs everything with three and prints a table.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchorch.journal.lock import read_coordinator
from chaos.conftest import SEEDS
from chaos.drill import (
    EXPECTED,
    SWEEP,
    Begin,
    Drill,
    Outcomes,
    drilling,
    lasting,
    local_store,
    trial,
    trial_id,
)
from support.ray_machines import KINDS, Machines, ray_settings
from support.waiting import until

pytestmark = pytest.mark.ray_cluster


@pytest.fixture(scope="module", autouse=True)
def _ray_settings() -> Iterator[None]:
    with ray_settings():
        yield


@pytest.fixture
def begin(machines: Machines, tmp_path: Path, seed: int) -> Iterator[Begin]:
    """Makes a drill on the cluster."""
    with drilling(tmp_path, seed, address=machines.address) as make:
        yield make


@pytest.fixture
def few() -> tuple[list[dict[str, Any]], Outcomes]:
    """The trials of a default drill, of both kinds, with what they answer; all with seeds."""
    trials = SWEEP if SEEDS in os.environ else SWEEP[:5]
    return trials, {trial_id(one["asks"]): EXPECTED[trial_id(one["asks"])] for one in trials}


def attempts(drill: Drill) -> list[int]:
    return [line["attempt"] for line in drill.lines()]


@pytest.mark.slow
def test_an_unbroken_sweep(begin: Begin) -> None:
    drill = begin()
    drill.start()
    assert until(drill.orphans, 60)  # what is looked for at the end can be found
    assert drill.finish() == 0, drill.stderr()
    drill.check(EXPECTED)
    assert set(attempts(drill)) == {1}


def test_a_killed_coordinator_is_taken_up_where_it_was(
    begin: Begin, few: tuple[list[dict[str, Any]], Outcomes]
) -> None:
    trials, expected = few
    drill = begin(trials)
    drill.start()
    drill.moment()
    drill.kill_coordinator()
    before = drill.lines()
    assert len(before) < len(trials)
    assert drill.run() == 0, drill.stderr()
    assert drill.lines()[: len(before)] == before
    drill.check(expected)


@pytest.mark.slow  # one trial's is in e2e/test_ray_cluster.py
def test_a_killed_agent_costs_an_attempt(begin: Begin) -> None:
    drill = begin()
    drill.start()
    victim = drill.moment()
    os.kill(victim["pid"], signal.SIGKILL)
    assert drill.finish() == 0, drill.stderr()
    drill.check(EXPECTED)
    assert max(attempts(drill)) == 2


@pytest.mark.slow
def test_a_killed_node_loses_its_trial_to_another(begin: Begin, machines: Machines) -> None:
    drill = begin()
    drill.start()
    victim = drill.moment(kind="a")
    machines.kill(victim["node"])
    code = drill.finish()
    machines.add("a")
    assert code == 0, drill.stderr()
    drill.check(EXPECTED)


@pytest.mark.slow
def test_a_kind_whose_only_node_dies_is_waited_for_until_another_joins(
    begin: Begin, machines: Machines
) -> None:
    drill = begin(wait_s=60)
    drill.start()
    victim = drill.moment(kind="b")
    machines.kill(victim["node"])
    machines.add("b")
    assert drill.finish() == 0, drill.stderr()
    drill.check(EXPECTED)


def freeze(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.slow
def test_a_frozen_machine_loses_its_trial_and_may_thaw(begin: Begin, machines: Machines) -> None:
    """It is like one behind a broken link; healed, it goes on with its trial."""
    drill = begin()
    drill.start()
    victim = drill.moment(kind="a", built=True)
    frozen = machines.pids(victim["node"])
    freeze(frozen, signal.SIGSTOP)
    settled = until(lambda: drill.begun_again(victim["trial"]) or _kept(drill, victim), 90)
    freeze(frozen[::-1], signal.SIGCONT)
    code = drill.finish()
    machines.kill(victim["node"])
    machines.add("a")
    assert (code, settled) == (0, True), drill.stderr()
    drill.check(EXPECTED)


@pytest.mark.slow
def test_a_late_result_of_a_lost_agent_is_dropped(begin: Begin, machines: Machines) -> None:
    """Only its raylet is frozen: the agent is given up for dead, and works to the end."""
    drill = begin(lasting(20, 0, 1))
    drill.start()
    victim = drill.moment_of(0, 1)
    raylet = machines.pids(victim["node"])[:1]
    freeze(raylet, signal.SIGSTOP)
    code = drill.finish()
    freeze(raylet, signal.SIGCONT)
    machines.kill(victim["node"])
    machines.add("a")
    assert code == 0, drill.stderr()
    ends = [one["attempt"] for one in drill.entries("end") if one["trial"] == victim["trial"]]
    assert ends == [1, 2]  # both copies finished, the one that was given up first
    assert [line["attempt"] for line in drill.lines() if line["trial_id"] == victim["trial"]] == [2]
    drill.check(EXPECTED)


def _kept(drill: Drill, victim: Mapping[str, Any]) -> bool:
    """Whether its result had left the machine before it froze."""
    return any(line["trial_id"] == victim["trial"] for line in drill.lines())


@pytest.mark.slow
def test_a_killed_head_ends_the_coordinator_in_words_and_a_new_head_takes_the_sweep_up(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_gcs_rpc_server_reconnect_timeout_s")  # Ray's own minute stays a minute
    first = Machines(*KINDS)
    drill = begin([{**one, "takes_s": 8} for one in SWEEP], address=first.address)
    drill.start()
    drill.moment()
    first.kill_head()
    killed_s = time.monotonic()
    try:
        assert drill.finish() == 1
        assert time.monotonic() - killed_s < 50, drill.stderr()
        assert f"The head of the Ray cluster at {first.address} has not" in drill.stderr()
        assert until(lambda: not drill.orphans(), 5)  # though their nodes live on
        status = read_coordinator(drill.run_directory)
        assert status is not None
        assert bool(status.ended_at) == bool(drill.lines())
    finally:
        first.close()
    assert len(drill.lines()) < len(SWEEP)
    second = Machines(*KINDS)
    try:
        drill.address = second.address
        assert drill.run() == 0, drill.stderr()
        drill.check(EXPECTED)
    finally:
        second.close()


@pytest.mark.slow
def test_a_kind_without_a_node_is_a_reasoned_failure_at_its_deadline(begin: Begin) -> None:
    drill = begin([*SWEEP, trial(9, kind="z")], wait_s=3)
    began_s = time.monotonic()
    assert drill.run() == 1
    assert time.monotonic() - began_s < 120
    drill.check({**EXPECTED, trial_id(9): ("failed", "no_node", "")})
    [line] = [line for line in drill.lines() if line["trial_id"] == trial_id(9)]
    assert "it has: a, b" in line["failure"]["message"]
    assert '"benchorch:z": 1' in line["failure"]["remedy"]


def test_a_trial_that_hangs_hoards_or_crashes_harms_no_other(
    begin: Begin, few: tuple[list[dict[str, Any]], Outcomes]
) -> None:
    trials, expected = few
    acts = ("hangs", "hoards", "segfaults")
    hangs, hoards, segfaults = range(len(trials), len(trials) + len(acts))
    harmful = [trial(len(trials) + at, acts=act) for at, act in enumerate(acts)]
    drill = begin([*trials, *harmful])
    assert drill.run() == 1
    bad: Outcomes = {
        trial_id(hangs): ("timeout", "timeout", ""),
        trial_id(hoards): ("failed", "oom", ""),
        trial_id(segfaults): ("failed", "crash:SIGSEGV", ""),
    }
    drill.check({**expected, **bad})
    assert set(attempts(drill)) == {1}


@pytest.mark.slow
def test_corrupted_artifacts_are_set_aside_and_built_again_once(begin: Begin) -> None:
    first = begin()
    assert first.run() == 0, first.stderr()
    files = sorted((first.path / "store").rglob("weights.bin"))
    victims = first.dice.sample(files, 2)
    for victim in victims:
        content = bytearray(victim.read_bytes())
        content[first.dice.randrange(len(content))] ^= 1
        victim.write_bytes(content)
    second = begin(store=local_store(first.path / "store"))
    assert second.run() == 0, second.stderr()
    second.check(EXPECTED)
    made = [entry["artifact"] for entry in second.entries("made")]
    assert len(made) == len(set(made)) == len(victims)


@pytest.mark.slow
def test_two_sweeps_that_want_one_artifact_build_it_once(begin: Begin, tmp_path: Path) -> None:
    both = [
        begin(
            [trial(number, kind=kind) for number in range(9)], store=local_store(tmp_path / "store")
        )
        for kind in ("a", "b")
    ]
    for drill in both:
        drill.start()
    for drill in both:
        assert drill.finish() == 0, drill.stderr()
        drill.check(EXPECTED)
    made = [entry["artifact"] for drill in both for entry in drill.entries("made")]
    assert sorted(made) == sorted({one["artifact"] for one in SWEEP})


@pytest.mark.slow
def test_a_tracker_that_is_down_costs_nothing_and_gets_everything_once_later(
    begin: Begin, tmp_path: Path
) -> None:
    from benchorch.recorders.mlflow import create_store

    down = {"_target_": "benchorch.recorders.mlflow.Mlflow", "uri": "http://127.0.0.1:9"}
    drill = begin(tracking=down)
    drill.run()
    drill.check(EXPECTED)
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    create_store(uri)
    for _ in range(2):
        record(drill.run_directory, uri)
    assert recorded(uri) == sorted(EXPECTED)


def record(directory: Path, uri: str) -> None:
    command = [sys.executable, "-m", "benchorch", "record", str(directory), "--uri", uri]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def recorded(uri: str) -> list[str]:
    """The trials that a tracker holds, each as often as it holds it."""
    from mlflow import MlflowClient  # noqa: TID251  (what we wrote is read back with MLflow itself)

    client = MlflowClient(uri)
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = client.search_runs(ids)
    return sorted(run.data.tags["trial_id"] for run in runs if "trial_id" in run.data.tags)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("SKIPPED DRILL: only the superuser can mount a small disk")
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if subprocess.run(command, check=False).returncode != 0:
        pytest.skip("SKIPPED DRILL: a small disk cannot be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """A file that leaves no room for another byte."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))
    return ballast


@pytest.mark.slow
def test_a_journal_on_a_full_disk_ends_the_coordinator_in_words_and_is_taken_up(
    begin: Begin, small_disk: Path
) -> None:
    drill = begin(directory=small_disk / "run")
    drill.start()
    drill.moment()
    ballast = fill(small_disk)
    assert drill.finish() == 1
    assert "Free some space, then run the same command with resume=" in drill.stderr()
    assert len(drill.lines()) < len(SWEEP)
    ballast.unlink()
    assert drill.run() == 0, drill.stderr()
    drill.check(EXPECTED)


@pytest.mark.slow
def test_a_store_on_a_full_disk_is_no_trials_fault(begin: Begin, small_disk: Path) -> None:
    drill = begin(store=local_store(small_disk / "store"))
    (small_disk / "store").mkdir()
    ballast = fill(small_disk)
    assert drill.run() == 1
    assert {line["failure"]["kind"] for line in drill.lines()} == {"disk_full"}
    ballast.unlink()
    assert drill.run() == 0, drill.stderr()
    assert drill.outcomes(committed=drill.lines()[len(SWEEP) :]) == EXPECTED


@pytest.mark.slow
def test_a_coordinator_whose_clock_is_a_day_ahead_sees_the_same(begin: Begin) -> None:
    skewed = ("unshare", "--time", "--fork", "--kill-child", "--monotonic", "86400")
    if subprocess.run([*skewed, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("SKIPPED DRILL: this machine has no namespaces of time")
    drill = begin(under=skewed)
    assert drill.run() == 0, drill.stderr()
    drill.check(EXPECTED)
