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
limits: {build_timeout_s: 40, memory_gib: 1.5}
protocol: {canary_tolerance_ratio: null, pair_window_s: 0.05}
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
    done = place.run(recipe("zoo", *EXPECTED), "hydra.run.dir=out", code=1)
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


@pytest.mark.slow
def test_a_killed_run_is_taken_up_where_it_was(place, recipe):
    name = recipe("slowly", "works", "slow", "raises")
    running = subprocess.Popen(
        place.command(name, "hydra.run.dir=out"),
        cwd=place.path,
        env=place.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    journal = place.path / "out" / "results.jsonl"
    wait_for(lambda: journal.exists() and journal.read_text().count("\n") >= 1)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    before = place.results("out")

    place.run("resume=out", code=1)

    after = place.results("out")
    assert after[: len(before)] == before
    assert sorted(line["trial_id"] for line in after) == sorted(
        trial["trial_id"]
        for trial in json.loads((place.path / "out/plan.json").read_text())["trials"]
    )


def test_an_interrupt_keeps_what_was_finished_and_says_how_to_go_on(place, recipe):
    name = recipe("interrupted", "works", "sleeps")
    running = subprocess.Popen(
        place.command(name, "hydra.run.dir=out"),
        cwd=place.path,
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    journal = place.path / "out" / "results.jsonl"
    wait_for(lambda: journal.exists() and journal.read_text().count("\n") >= 1)
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    said, complained = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "resume=" in said
    assert "Traceback" not in complained
    assert [line["outcome"] for line in place.results("out")] == ["ok"]


def wait_for(happened, limit_s=120):
    deadline = time.monotonic() + limit_s
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.1)
