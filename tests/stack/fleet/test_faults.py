"""Sweeps on a fleet while AWS fails: what people read, and that nothing measured is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3  # noqa: TID251 - looks at what was launched
import pytest

from support.aws_emulator import failures
from support.machines import handmade, namespaces
from support.machines.rehearsal import Rehearsal, rehearsing, wait

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
SWEEP = ("model=mlp", "conversion=eager", "executor=ec2", "recorder=none", "profiler=none")
QUICK = (*SWEEP, "stopping=quick", "protocol.repeats=0", "executor.spot_wait_s=20")
IMPATIENT = (*QUICK, "executor.wait_s=60")
KINDS = {"r6i.large": "r6i", "c7i.large": "c7i", "m7i.large": "m7i"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """One head for all tests, with a type for each."""
    reason = namespaces.missing()
    if reason:
        pytest.skip(f"SKIPPED: no fleet is rehearsed: {reason}")
    pytest.importorskip("moto", reason="moto stands in for AWS")
    with (
        rehearsing(tmp_path_factory.mktemp("faults"), {}) as rehearsal,
        pytest.MonkeyPatch.context() as patched,
    ):
        for name, value in rehearsal.emulator.environment().items():
            patched.setenv(name, value)
        handmade.launch_head(list(KINDS), idle_s=15)
        yield rehearsal


@pytest.fixture(autouse=True)
def mended(fleet: Rehearsal) -> Iterator[None]:
    yield
    fleet.emulator.traffic.faults.clear()
    fleet.emulator.seen_after_s = fleet.emulator.ahead_s = 0.0
    fleet.hypervisor.duds.clear()


def of_size(kind: str) -> tuple[str, str]:
    return f"hardware={KINDS[kind]}", f"hardware.size={kind.partition('.')[2]}"


def results(fleet: Rehearsal) -> Sequence[Mapping[str, Any]]:
    """Of every sweep so far, the oldest first: what was measured stays."""
    files = sorted(fleet.desk.glob("runs/*/*/results.jsonl"), key=lambda path: path.stat().st_mtime)
    return [json.loads(line) for path in files for line in Path(path).read_text().splitlines()]


def alive(kind: str) -> Sequence[str]:
    filters = [
        {"Name": "instance-type", "Values": [kind]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    told = boto3.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return [one["InstanceId"] for reservation in told for one in reservation["Instances"]]


def test_throttling_late_visibility_a_busy_bucket_and_an_inexact_clock_cost_no_result(fleet):
    fleet.head()
    fleet.emulator.seen_after_s = 3.0
    fleet.emulator.ahead_s = 600.0  # which AWS accepts
    fleet.emulator.break_it(
        failures.throttled("ec2:(RunInstances|DescribeInstances|CreateTags)", times=6),
        failures.slow_down(times=8),
    )
    swept = fleet.sweep(*QUICK, *of_size("r6i.large"), timeout_s=600)
    assert swept.returncode == 0, swept.stdout[-3000:] + swept.stderr[-3000:]
    [result] = results(fleet)
    assert result["outcome"] == "ok"
    fleet.emulator.seen_after_s = fleet.emulator.ahead_s = 0.0
    wait(lambda: not alive("r6i.large"), 300, "a machine that appeared late was never ended")


def test_a_quota_is_named_with_the_command_that_raises_it_and_earlier_results_stay(fleet):
    before = results(fleet)
    fleet.emulator.break_it(
        failures.over_quota(spot=True, InstanceType="c7i.large"),
        failures.over_quota(spot=False, InstanceType="c7i.large"),
    )
    swept = fleet.sweep(*IMPATIENT, *of_size("c7i.large"), timeout_s=600)
    told = swept.stdout + swept.stderr
    assert swept.returncode == 1, told[-3000:]
    assert "VcpuLimitExceeded" in told or "MaxSpotInstanceCountExceeded" in told, told[-3000:]
    assert "make provision-check" in told
    found = results(fleet)
    assert found[: len(before)] == before
    assert "no_capacity" in json.dumps(found[-1])


def test_a_launch_that_no_policy_allows_ends_the_wait_with_what_to_do(fleet):
    before = results(fleet)
    fleet.emulator.break_it(failures.unauthorized("ec2:RunInstances"))
    swept = fleet.sweep(*IMPATIENT, *of_size("c7i.large"), timeout_s=600)
    told = swept.stdout + swept.stderr
    assert swept.returncode == 1, told[-3000:]
    assert "UnauthorizedOperation" in told, told[-3000:]
    assert "make provision" in told
    found = results(fleet)
    assert found[: len(before)] == before
    assert "no_capacity" in json.dumps(found[-1])
    assert not alive("c7i.large")


def test_a_clock_that_aws_refuses_ends_the_wait_with_what_to_do(fleet):
    before = results(fleet)
    fleet.emulator.ahead_s = 3600.0
    swept = fleet.sweep(*IMPATIENT, *of_size("c7i.large"), timeout_s=600)
    fleet.emulator.ahead_s = 0.0
    told = " ".join((swept.stdout + swept.stderr).split())
    assert swept.returncode == 1, told[-3000:]
    assert "SignatureDoesNotMatch" in told, told[-3000:]
    assert "The head's clock is not AWS's" in told
    found = results(fleet)
    assert found[: len(before)] == before
    assert found[-1]["outcome"] != "ok"


def test_a_machine_that_boots_and_never_joins_ends_the_wait_with_a_reason(fleet):
    before = results(fleet)
    fleet.hypervisor.duds.add("m7i.large")
    swept = fleet.sweep(*IMPATIENT, *of_size("m7i.large"), timeout_s=600)
    told = swept.stdout + swept.stderr
    assert swept.returncode == 1, told[-3000:]
    found = results(fleet)
    assert found[: len(before)] == before
    assert found[-1]["outcome"] != "ok"
    assert "m7i.large" in told
