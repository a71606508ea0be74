"""From the line typed on a laptop to the first trial on a stack without machines, by cause.

The rehearsed stack: Terraform, start scripts, Ray, autoscaler and benchorch are the real ones, AWS
is emulated and its machines are namespaces of this one. Packages are not installed and images not
booted, so what EC2 adds is in docs/cloud/aws.md. Needs root, like `make rehearse`.

    python benchmarks/first_trial.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from _harness import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from support.machines.rehearsal import USD_PER_HOUR, Rehearsal, lacking, rehearsing

LINE = ("model=mlp", "hardware=r6i", "conversion=eager", "profiler=none", "recorder=none")
QUICK = ("stopping=quick", "stopping.processes=3", "protocol.repeats=0", "pricing.source=bundled")
STACK = {"fleet": '{"r6i.large" = 1}', "idle_minutes": "1", "running": "false"}
MOMENTS = (
    ("Python, plan, stack found, machines looked at, sweep sent", "SetDesiredCapacity", ""),
    ("EC2 launches the head, which boots", "boot", "head"),
    ("its start script, until Ray runs", "PUT", "head"),
    ("the laptop's next look, every five seconds", "SendCommand", ""),
    ("the sweep's process, its plan, Ray's autoscaler", "RunInstances", "head"),
    ("EC2 launches the worker, which boots", "boot", "worker"),
    ("its start script", "PUT", "worker"),
    ("it joins Ray, an agent starts, the trial begins", "trial", ""),
)


def main() -> None:
    if reasons := lacking():
        sys.exit("\n".join(reasons))
    with (
        tempfile.TemporaryDirectory(prefix="rehearsal-") as place,
        rehearsing(Path(place), STACK, USD_PER_HOUR) as rehearsal,
    ):
        rehearsal.provision()
        moments = _typed(rehearsal, Path(place) / "laptop")
        rehearsal.destroy()
        left = sum(rehearsal.left().values())
    print("| step | seconds |\n|---|---|")
    for (_, before), (cause, at) in pairwise(moments):
        print(f"| {cause} | {at - before:.1f} |")
    print(f"| **from the line to the first trial** | {moments[-1][1] - moments[0][1]:.1f} |")
    print(f"\nleft: {left or 'nothing'}")


def _typed(rehearsal: Rehearsal, laptop: Path) -> list[tuple[str, float]]:
    """The moments of one line, in their order, by the clock of the day."""
    laptop.mkdir()
    machines = rehearsal.hypervisor.machines
    rehearsal.emulator.systems_manager.runner = lambda machine, script: machines[machine].run(
        ["sh", "-c", script], timeout_s=120
    )
    calls = _noted(rehearsal)
    begun = time.time()
    done = subprocess.run(
        [sys.executable, "-m", "benchorch", *LINE, *QUICK],
        cwd=laptop,
        env={**rehearsal.environment(), "BENCHORCH_HARDWARE_KIND": "laptop"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    clock = time.time() - time.monotonic()
    for stay in rehearsal.hypervisor.stays:
        calls.append((stay.from_s + clock, "boot", stay.role))
    [results] = laptop.glob("runs/*/*/results.jsonl")
    result = json.loads(results.read_text().splitlines()[0])
    calls.append((datetime.fromisoformat(result["started_at"]).timestamp(), "trial", ""))
    return [("the line", begun), *_found(sorted(calls), begun)]


def _noted(rehearsal: Rehearsal) -> list[tuple[float, str, str]]:
    """When each call came, of what, and of whose."""
    calls: list[tuple[float, str, str]] = []
    traffic = rehearsal.emulator.traffic
    admit = traffic.admit

    def noted(call: Any, caller: str = "") -> Any:
        start = call.action == "PUT" and "/starts/" not in call.path
        calls.append((time.time(), "other" if start else call.action, caller))
        return admit(call, caller)

    traffic.admit = noted  # type: ignore[method-assign]
    return calls


def _found(calls: list[tuple[float, str, str]], begun: float) -> Iterator[tuple[str, float]]:
    after = begun
    for cause, action, caller in MOMENTS:
        same = (at for at, *what in calls if at >= after and what == [action, caller])
        after = next(same, after)
        yield cause, after


if __name__ == "__main__":
    main()
