"""The fleet at work where there is no Terraform: a node is launched, works and is terminated."""

from __future__ import annotations

import json

import boto3  # noqa: TID251 - looks at what was kept
import pytest

from support.machines import handmade, namespaces
from support.machines.rehearsal import Rehearsal, rehearsing, wait

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def stack(tmp_path, monkeypatch):
    reason = namespaces.missing()
    if reason:
        pytest.skip(f"SKIPPED: no fleet is rehearsed: {reason}")
    pytest.importorskip("moto", reason="moto stands in for AWS")
    with rehearsing(tmp_path, {}) as rehearsal:
        for name, value in rehearsal.emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield rehearsal
    assert rehearsal.hypervisor.processes() == []


def test_a_node_is_launched_for_a_trial_and_terminated_after_it(stack: Rehearsal):
    head = handmade.launch_head(["r6i.large"], idle_s=15)
    words = ("model=mlp", "conversion=torchscript", "baseline=null", "hardware=r6i", "executor=ec2")
    words += ("recorder=none",)
    swept = stack.sweep(*words, "stopping=quick", "profiler=none", "protocol.repeats=0")
    assert swept.returncode == 0, swept.stdout[-3000:] + swept.stderr[-3000:]
    [line] = next(stack.desk.glob("runs/*/*/results.jsonl")).read_text().splitlines()
    launched = [stay.name for stay in stack.hypervisor.stays if stay.role == "worker"]
    assert launched == [json.loads(line)["environment"]["host"]], swept.stdout
    key = json.loads(line)["build"]["key"]
    kept = boto3.client("s3").list_objects_v2(Bucket=handmade.BUCKET, Prefix="store/artifacts/")
    assert f"store/artifacts/{key}/manifest.json" in [each["Key"] for each in kept["Contents"]]
    stack.until_idle()
    assert stack.hypervisor.instances_alive() == [head]


def test_a_machine_whose_start_fails_says_why_and_ends(stack: Rehearsal):
    """Here because the wheel in the bucket is not the one that the script names."""
    name = handmade.launch_head(["r6i.large"], idle_s=15)
    s3 = boto3.client("s3")
    [wheel] = [
        one["Key"]
        for one in s3.list_objects_v2(Bucket=handmade.BUCKET, Prefix="packages/")["Contents"]
        if one["Key"].endswith(".whl") and handmade.WHEEL in one["Key"]
    ]
    s3.put_object(Bucket=handmade.BUCKET, Key=wheel, Body=b"another")
    wait(lambda: name not in stack.hypervisor.instances_alive(), 240, "it went on")
    told = json.load(s3.get_object(Bucket=handmade.BUCKET, Key=f"starts/{name}.json")["Body"])
    assert (told["outcome"], told["step"], told["role"]) == ("failed", "wheel", "head")
    assert any("FAILED" in line or "did NOT match" in line for line in told["log"]), told["log"]
