"""The literal line, typed on a laptop, against the stack that Terraform made and its machines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
    machines = stack.hypervisor.machines
    stack.emulator.systems_manager.runner = lambda machine, script: machines[machine].run(
        ["bash", "-c", script], timeout_s=120
    )
    # A laptop's environment: AWS is all that it shares with the stack.
    environment = {**stack.environment(), "BENCHORCH_HARDWARE_KIND": "laptop"}
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


def _runs(place: Path) -> list[Path]:
    """Run directories, the oldest first."""
    return sorted(place.glob("runs/*/*"))


def _lines(run: Path) -> list[str]:
    """Results so far, one a line."""
    path = run / "results.jsonl"
    return path.read_text().splitlines() if path.exists() else []
