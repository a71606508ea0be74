"""A failure is a result with a class and a reason, and the other trials go on."""

import json
import os
import signal
import subprocess
import time

import pytest

RECIPE = """
defaults:
  - config
  - override model: factory
  - override stopping: quick
  - override recorder: none
  - override profiler: none
  - override conversion: eager
  - _self_
model:
  factory: my_zoo:works
  inputs: {x: {shape: [batch_size, 4], generator: normal}}
limits: {build_timeout_s: 500, memory_gib: 1.5}
protocol: {canary_tolerance_ratio: null, pairing: none}
"""
EXPECTED = {
    "works": ("ok", None, None),
    "segfaults": ("failed", "build", "crash:SIGSEGV"),
    "hoards": ("failed", "build", "oom"),
    "sleeps": ("timeout", "build", "timeout"),
    "raises": ("failed", "build", "user_code"),
    "returns_a_number": ("failed", "build", "user_code"),
    "refuses_inputs": ("failed", "build", "raised:ValueError"),
    "needs_a_package": ("failed", "build", "missing_package"),
}


@pytest.fixture
def recipe(place):
    def write(name, *factories):
        axis = ", ".join(f"my_zoo:{factory}" for factory in factories)
        text = f"{RECIPE}\nmatrix: {{model.factory: [{axis}]}}\n"
        (place.path / f"{name}.yaml").write_text(text)
        return f"{name}.yaml"

    return write


@pytest.mark.slow  # a slice is in the drills: one that hangs, one that hoards, one that crashes
def test_each_way_to_fail_has_its_own_class_and_the_sweep_goes_on(place, recipe):
    words = ("hydra.run.dir=out", "limits.build_timeout_s=90")
    done = place.run(recipe("zoo", *EXPECTED), *words, code=1)
    seen = {
        line["labels"]["axes"].rpartition(":")[2]: (
            line["outcome"],
            (line["failure"] or {}).get("stage"),
            (line["failure"] or {}).get("kind"),
        )
        for line in place.results("out")
    }
    assert seen == EXPECTED
    assert "crash:SIGSEGV" in done.stdout
    assert "no such weights today" in done.stdout
    assert "p50" in (place.path / "out" / "table.md").read_text()


def started(place, *words):
    return subprocess.Popen(
        place.command(*words),
        cwd=place.path,
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def measured(place):
    """What each trial that goes on has on disk: its processes, one line each."""
    files = (place.path / "out" / "trials").glob("*/rounds.jsonl")
    return {file.parent.name: file.read_text().splitlines() for file in files}


def test_a_killed_run_goes_on_from_its_last_process(place, recipe):
    name = recipe("killed", "slow")
    words = ("hydra.run.dir=out", "stopping.processes=2", "stopping.window_s=0.05")
    words += ("control=false",)
    running = started(place, name, *words)
    wait_for(lambda: any(measured(place).values()))
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    before = measured(place)

    place.run("resume=out")

    after = {line["trial_id"]: line for line in place.results("out")}
    assert all(len(line["processes"]) == 2 for line in after.values())
    assert len(after) == 1
    for trial_id, lines in before.items():
        kept = [json.loads(line)["process"]["load_s"] for line in lines]
        assert [process["load_s"] for process in after[trial_id]["processes"]][: len(kept)] == kept
    assert not measured(place)


def test_an_interrupt_ends_with_what_was_measured_and_says_how_to_go_on(place, recipe):
    name = recipe("interrupted", "works", "sleeps")
    running = started(place, name, "hydra.run.dir=out", "stopping.processes=3")
    wait_for(lambda: measured(place))
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    said, complained = running.communicate(timeout=900)
    assert running.returncode == 130
    assert "resume=" in said
    assert "partial" in said
    assert "Traceback" not in complained
    (line,) = place.results("out")
    assert (line["outcome"], line["unfinished"], len(line["processes"])) == ("ok", True, 1)


def wait_for(happened, limit_s=900):
    deadline = time.monotonic() + limit_s
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.1)
