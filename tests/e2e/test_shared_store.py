"""Whole runs of machines that have a bucket in common."""

import json

import pytest

from aws_emulator.traffic import Fault
from s3_lab import bucket

__all__ = ["bucket"]
pytestmark = pytest.mark.slow

RECIPE = """
defaults:
  - config
  - override model: mlp
  - override stopping: quick
  - override tracking: none
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
