"""Whole runs of machines that have a bucket in common."""

import json

import pytest

from support.aws_emulator.traffic import Fault
from support.s3 import bucket

__all__ = ["bucket"]
pytestmark = pytest.mark.slow

RECIPE = """
defaults:
  - config
  - override model: mlp
  - override stopping: quick
  - override recorder: none
  - override profiler: none
  - override store: s3
  - override conversion: {conversion}
  - _self_
store: {{url: "{url}", root: "{root}"}}
protocol: {{canary_tolerance_ratio: null, pair_window_s: 0.05}}
"""


@pytest.fixture
def run_on(place, bucket):
    """Runs the recipe as a machine of that name would; its results, and its trials' logs."""

    def run(machine, conversion):
        root = place.path / machine
        text = RECIPE.format(conversion=conversion, url=bucket.url, root=root)
        (place.path / f"{machine}.yaml").write_text(text)
        place.run(f"{machine}.yaml", f"hydra.run.dir=out-{machine}")
        logs = (place.path / f"out-{machine}" / "trials").glob("*/log.txt")
        return place.results(f"out-{machine}"), "".join(log.read_text() for log in logs)

    return run


def test_a_bucket_that_takes_nothing_fails_no_trial_and_the_log_says_so(run_on, bucket):
    bucket.emulator.break_it(Fault("s3:PUT", "AccessDenied", status=403))
    results, logs = run_on("a", "eager")
    assert {result["outcome"] for result in results} == {"ok"}
    assert "is kept on this machine only" in logs
    assert "AccessDenied" in logs
    assert bucket.names() == []


def test_a_chain_is_built_by_one_machine_and_found_by_the_next(run_on, place, bucket):
    first, _ = run_on("a", "onnxruntime")
    second, _ = run_on("b", "onnxruntime")
    states = [
        result["build"]["cache"]
        for result in (*first, *second)
        if result["labels"]["conversion"] == "onnxruntime"
    ]
    assert states == ["miss", "hit"]
    listed = place.run(
        *("cache", "list", "--json", "store=s3", f"store.url={bucket.url}"),
        f"store.root={place.path / 'c'}",
    )
    assert len(json.loads(listed.stdout)) == len(bucket.names("names/")) == 2


def test_a_run_whose_disk_is_gone_comes_back_and_goes_on(place, bucket):
    asked = ("model=mlp", "conversion=[eager,torchscript]", "stopping=quick", "profiler=none")
    options = ("recorder=none", "hydra.run.dir=out", f"keep_at={bucket.url}")
    done = place.run(*asked, *options)
    plan = json.loads((place.path / "out" / "plan.json").read_text())["plan_id"]
    assert f"kept      python -m benchorch fetch {plan} --at {bucket.url}" in done.stdout
    table = (place.path / "out" / "table.md").read_text()
    for gone in ("out", "state"):
        (place.path / gone).rename(place.path / f"{gone}-gone")

    told = place.run("fetch", plan, "--at", bucket.url).stdout
    assert "2 of 2 trials have a result" in told
    back = place.path / "runs" / plan
    assert (back / "table.md").read_text() == table
    assert json.loads((back / "driver.json").read_text())["complete"] is True
    assert "torchscript" in place.run("report", plan).stdout

    lines = (back / "results.jsonl").read_text().splitlines(keepends=True)
    (back / "results.jsonl").write_text(lines[0])  # as if the head had gone before the second
    told = json.loads((back / "plan.json").read_text())
    told["session"]["cwd"] = "/nowhere/else"
    (back / "plan.json").write_text(json.dumps(told))
    done = place.run("resume", plan, "--trust", str(back))
    assert "/nowhere/else, which is not on this machine; relative paths" in done.stderr
    assert len(place.results(back)) == 2
    assert place.results(back)[0] == json.loads(lines[0])


def test_a_bucket_that_is_away_costs_a_run_no_more_than_a_sentence(place, bucket):
    bucket.emulator.break_it(Fault("s3:PUT", "AccessDenied", status=403))
    asked = ("model=mlp", "conversion=eager", "stopping=quick", "profiler=none", "recorder=none")
    done = place.run(*asked, "hydra.run.dir=out", f"keep_at={bucket.url}")
    assert "Results stay on this disk" in done.stderr
    assert f"python -m benchorch keep {place.path / 'out'} --at {bucket.url}" in done.stdout
    bucket.emulator.traffic.faults.clear()
    assert "nothing is missing" in place.run("keep", "out", "--at", bucket.url).stdout


def test_a_place_that_is_no_bucket_is_told_with_the_plans_other_mistakes(place):
    done = place.run("model=mlp", "keep_at=http://x", "objective=no_metric", code=2)
    assert "keep_at: 'http://x' names no bucket; expected s3://bucket/prefix." in done.stderr
    assert "objective" in done.stderr
