"""A sweep whose terminal is gone: it goes on, is found again, ended, and taken up once more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FAST = (
    *("stopping=fixed", "stopping.processes=1", "stopping.window_s=0.2", "protocol.pairing=none"),
    *("protocol.canary_tolerance_ratio=null", "profiler=none", "recorder=none"),
)
RECIPE = """
defaults: [config, override model: factory, override conversion: eager, _self_]
model: {factory: my_zoo:works, inputs: {x: {shape: [batch_size, 4], generator: normal}}}
matrix: {model.factory: [my_zoo:works, my_zoo:held, my_zoo:Net]}
"""
"""The second trial goes on when `go` is there: however slow the machine, the run waits for it."""

PATIENCE_S = 900.0


def eventually(true: Callable[[], Any]) -> Any:
    """What a question answers as soon as that is anything."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        answer = true()
        if answer:
            return answer
        time.sleep(0.2)
    raise AssertionError("it never came true")


def status(place: Any, reference: str) -> dict[str, Any]:
    return dict(json.loads(place.run("status", reference, "--json").stdout))


@pytest.fixture
def submitted(place: Any) -> Iterator[dict[str, Any]]:
    """A run that a shell has submitted; the shell and its session are gone."""
    (place.path / "held.yaml").write_text(RECIPE)
    words = " ".join(place.command("submit", "--json", "held.yaml", *FAST))
    shell = subprocess.Popen(
        ["bash", "-c", f"{words}; echo; echo submitted; sleep 600"],
        cwd=place.path,
        env=place.environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert shell.stdout is not None
    text = "".join(iter(shell.stdout.readline, "submitted\n"))
    os.killpg(shell.pid, signal.SIGHUP)
    os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()
    shell.stdout.close()
    told = dict(json.loads(text))
    yield told
    place.run("cancel", told["plan_id"], "--yes")


def test_a_sweep_outlives_its_terminal_is_watched_ended_and_resumed(
    place: Any, submitted: dict[str, Any]
) -> None:
    plan_id, directory = submitted["plan_id"], Path(submitted["directory"])
    follower = subprocess.Popen(
        place.command("logs", plan_id, "--follow"),
        cwd=place.path,
        env=place.environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a share of its own: it runs only when a core is idle
    )
    seen = eventually(lambda: (now := status(place, plan_id))["done"] >= 1 and now)
    assert seen["state"] == "running"
    assert seen["pid"] == submitted["pid"]
    assert os.getsid(seen["pid"]) == seen["pid"], "it has a session of its own"
    assert seen["left_s"] >= 0  # 0 once the end that was expected is past

    ended = place.run("cancel", plan_id, "--yes", "--wait", str(PATIENCE_S))
    assert f"resume {plan_id}" in ended.stdout
    with pytest.raises(ProcessLookupError):
        eventually(lambda: os.kill(seen["pid"], 0))
    seen = status(place, directory.name)
    assert seen["state"] == "interrupted"
    assert seen["done"] == 1
    followed, _ = follower.communicate(timeout=PATIENCE_S)
    assert "works eager: measure process 1" in followed
    assert "Interrupted: the table is partial" in followed

    (place.path / "go").touch()
    assert "1 already there" in place.run("resume", plan_id).stdout
    seen = status(place, plan_id)
    assert (seen["state"], seen["done"], seen["left"]) == ("ended", 3, 0)
    results = [line["trial_id"] for line in place.results(directory)]
    assert len(results) == len(set(results)) == 3
    assert "has ended" in place.run("cancel", plan_id, "--yes").stdout


@pytest.mark.slow
def test_a_driver_that_was_killed_is_dead_and_a_resumed_one_can_leave_too(
    place: Any, submitted: dict[str, Any]
) -> None:
    plan_id = submitted["plan_id"]
    os.kill(submitted["pid"], signal.SIGKILL)
    assert eventually(lambda: status(place, plan_id)["state"] != "running")
    assert status(place, plan_id)["state"] == "dead"
    assert "dead" in place.run("status").stdout
    (place.path / "go").touch()
    again = json.loads(place.run("submit", "--json", "resume", plan_id).stdout)
    assert again["pid"] != submitted["pid"]
    assert again["directory"] == submitted["directory"]
    assert eventually(lambda: status(place, plan_id)["state"] == "ended")
    log = place.run("logs", plan_id).stdout
    assert log.count(f"plan {plan_id}") == 2, "both drivers wrote to one log"


def test_what_goes_wrong_at_the_start_is_told_by_the_submitter(place: Any) -> None:
    words = ("model=mlp", "conversion=eager", "hydra.run.dir=taken", *FAST)
    (place.path / "taken").mkdir()
    import fcntl

    with (place.path / "taken" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = place.run("submit", *words, code=2)
    assert "belongs to a run that is still going on" in done.stderr
