"""A run in which one conversion fails: what ends at once, what runs again, and what does not."""

import json

import pytest

FAST = (
    *("stopping=fixed", "stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.05"),
    *("protocol.canary_tolerance_ratio=null", "protocol.pairing=none", "control=false"),
    *("profiler=none", "recorder=none", "store.root=store", "hydra.run.dir=out"),
    "executor=inline",
)
NET = """
from pathlib import Path
import torch

class Picky(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        if not Path("mended").exists() and torch.compiler.is_exporting():
            raise RuntimeError("cannot be exported yet")
        return self.linear(x)

def make():
    return Picky()
"""
MODEL = (
    *("model=factory", "model.factory=picky:make"),
    "model.inputs={x: {shape: [batch_size, 4], generator: normal}}",
)


def ran(place):
    """The conversions that have run so far, in order, with their outcomes."""
    return [(line["labels"]["conversion"], line["outcome"]) for line in place.results("out")]


@pytest.fixture
def picky(place):
    (place.path / "picky.py").write_text(NET)
    return place


def fail(place, *words):
    """The end of a run whose failures show tracebacks: it is measured in one process."""
    done = place.commands.run(place.path, ["run", *words, *FAST], 60, environment=place.environment)
    assert done.code == 1
    return done


def test_only_what_failed_runs_again_and_then_nothing_does(picky):
    fail(picky, *MODEL, "conversion=[eager,export]")
    before = ran(picky)
    assert sorted(before) == [("eager", "ok"), ("export", "failed")]
    (picky.path / "mended").touch()
    again = picky.run("rerun", "out", "--failed")
    assert "2 trials, 1 already there" in again.stdout
    assert ran(picky) == [*before, ("export", "ok")]
    idle = picky.run("rerun", "out", "--failed")
    assert idle.stdout == "No trial of it has failed, so nothing runs again.\n"
    told = json.loads(picky.run("rerun", "out", "--failed", "--json").stdout)
    assert told["exit_code"] == 0
    assert len(told["trials"]) == 2
    assert len(ran(picky)) == 3
    picky.run("rerun", "out", "--only", "ea*")
    assert ran(picky)[3:] == [("eager", "ok")]


def test_the_first_failure_ends_a_run_and_what_has_not_run_waits_for_resume(picky):
    """Which goes on with a setting that may differ, and is refused with one that may not."""
    done = fail(picky, "-x", *MODEL, "conversion=[export,eager,bf16]")
    assert "The first failure ends the run (--exitfirst)." in done.stdout
    assert "resume    python -m benchorch resume=" in done.stdout
    before = ran(picky)
    assert ("export", "failed") in before
    assert len(before) < 3
    assert json.loads((picky.path / "out" / "driver.json").read_text())["complete"] is False
    typed = (picky.path / "out" / ".hydra" / "overrides.yaml").read_text()
    refused = picky.run("resume", "out", "stopping.processes=2", code=2)
    assert "stopping.processes: resume runs the trials of the plan" in refused.stderr
    assert "Try: benchorch resume out\n" in refused.stderr
    picky.run("resume", "out", "--only", "export", code=1)  # the failed one stays failed
    assert ran(picky) == before
    (picky.path / "mended").touch()
    picky.run("rerun", "out", "--failed", code=1)  # the rest of the plan has not run
    assert ran(picky) == [*before, ("export", "ok")]
    picky.run("resume", "out", "--only", "export", code=1)  # which has a result
    assert ran(picky) == [*before, ("export", "ok")]
    done = picky.run("resume", "out", "budget.minutes=10")
    assert f"3 trials, {len(before)} already there" in done.stdout
    assert {conversion for conversion, outcome in ran(picky) if outcome == "ok"} == {
        *("eager", "export", "bf16")
    }
    session = json.loads((picky.path / "out" / "plan.json").read_text())["session"]
    assert session["budget"] == {"minutes": 10, "max_usd": None}
    assert (picky.path / "out" / ".hydra" / "overrides.yaml").read_text() == typed
