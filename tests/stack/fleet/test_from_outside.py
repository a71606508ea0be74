"""The literal line, typed on a laptop, against the stack that Terraform made and its machines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import boto3  # noqa: TID251 - ends the head
import pytest

from support.machines.rehearsal import Rehearsal, wait

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

LINE = ("model=mlp", "hardware=r6i", "conversion=[eager,torchscript]", "-m")
SIZES = "workload.batch_size=1,2"
QUICK = ("stopping=quick", "stopping.processes=3", "protocol.repeats=0", "pricing.source=bundled")
LONG_TRACE = ("profiler=torch", "profiler.active=2000", "profiler.budget_s=30")
MIB = 2**20


def test_the_line_survives_a_lid_that_closes_and_brings_home_files_above_a_mebibyte(
    stack: Rehearsal, tmp_path: Path
) -> None:
    environment = _laptop(stack)
    command = [sys.executable, "-m", "benchorch", *LINE, SIZES, *QUICK, *LONG_TRACE]
    with (tmp_path / "first.log").open("w") as log:
        first = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        wait(lambda: any(map(_lines, _runs(tmp_path))), 600, "no trial ended")
        assert first.poll() is None
        first.kill()  # in mid-sweep
        first.wait()
    again = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert "continues sweep" in again.stdout
    interrupted, followed = _runs(tmp_path)
    results = list(map(json.loads, _lines(followed)))
    assert len(_lines(interrupted)) < len(results) == 4
    assert {one["outcome"] for one in results} == {"ok"}
    assert len({one["trial_id"] for one in results}) == 4
    large = [path for path in followed.glob("trials/**/*") if path.stat().st_size > MIB]
    assert {path.name for path in large} >= {"trace.json.gz"}
    assert [stay.role for stay in stack.hypervisor.stays].count("head") == 1
    stack.until_idle()


ENDLESS = """
import time

import torch


class Endless(torch.nn.Linear):
    def forward(self, x):
        time.sleep(30)
        return super().forward(x)


def make():
    return Endless(4, 4)
"""


@pytest.mark.timeout(1800)
def test_a_budget_that_is_spent_in_the_middle_ends_the_sweep_and_its_machines(
    stack: Rehearsal, tmp_path: Path
) -> None:
    """The trial takes longer than was expected, so the budget that fits the plan is reached."""
    environment = _laptop(stack)
    (tmp_path / "endless.py").write_text(ENDLESS)
    words = [
        *("model=factory", "model.factory=endless.py:make", "hardware=r6i", "conversion=eager"),
        *("model.inputs={x: {shape: [batch_size, 4], generator: normal}}", "workload.batch_size=1"),
        *("pricing.source=bundled", "stopping=fixed", "stopping.processes=4", "profiler=none"),
        *("limits.measure_timeout_s=3600", "protocol.repeats=0"),
    ]
    benchorch = [sys.executable, "-m", "benchorch"]

    def typed(*more: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*benchorch, *more], cwd=tmp_path, env=environment, capture_output=True, text=True,
            timeout=timeout_s, check=False,
        )  # fmt: skip

    planned = typed("plan", *words, "--json", timeout_s=120)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    usd = json.loads(planned.stdout)["cost_usd"] * 1.01
    ended = typed(*words, f"budget.max_usd={usd:.4f}", timeout_s=1500)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    (run,) = _runs(tmp_path)
    (result,) = map(json.loads, _lines(run))
    assert result["failure"]["kind"] == "budget_reached"
    assert "budget.max_usd" in ended.stdout + ended.stderr
    stack.until_idle()


def _laptop(stack: Rehearsal) -> dict[str, str]:
    """The environment of a laptop: AWS is all that it shares with the stack."""
    machines = stack.hypervisor.machines
    stack.emulator.systems_manager.runner = lambda machine, script: machines[machine].run(
        ["sh", "-c", script], timeout_s=120
    )
    return {**stack.environment(), "BENCHORCH_HARDWARE_KIND": "laptop"}


def _runs(place: Path) -> list[Path]:
    """Run directories, the oldest first."""
    return sorted(place.glob("runs/*/*"))


def _lines(run: Path) -> list[str]:
    """Results so far, one a line."""
    path = run / "results.jsonl"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.timeout(1800)
def test_the_line_starts_from_no_machine_and_waits_until_the_head_has_started(
    stack: Rehearsal, tmp_path: Path
) -> None:
    """Systems Manager reaches the head long before Ray does; last, for it replaces the head.

    And no machine is left: the worker ends first, then the head that nobody uses.
    """
    environment = _laptop(stack)
    stack.variables = {**stack.variables, "head_idle_minutes": "2"}
    stack.provision()
    groups = boto3.client("autoscaling", **stack._keys())
    groups.set_desired_capacity(AutoScalingGroupName="benchorch-head", DesiredCapacity=0)
    wait(lambda: not stack.hypervisor.machines, 120, "a machine stayed")
    done = subprocess.run(
        [sys.executable, "-m", "benchorch", *LINE, *QUICK, "profiler=none"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = _runs(tmp_path)
    assert {json.loads(line)["outcome"] for line in _lines(run)} == {"ok"}
    assert [stay.role for stay in stack.hypervisor.stays].count("head") == 2
    wait(lambda: not stack.hypervisor.instances_alive(), 600, "a machine stayed")
    [group] = groups.describe_auto_scaling_groups(AutoScalingGroupNames=["benchorch-head"])[
        "AutoScalingGroups"
    ]
    assert group["DesiredCapacity"] == 0
