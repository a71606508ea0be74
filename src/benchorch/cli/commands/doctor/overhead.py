"""Overhead of benchorch: of a measuring process, and inside a timed call.

A trial of the eager MLP runs as any trial does, interleaved with as many bare processes that do the
minimum: start an interpreter, import torch, make the same model, call it once.
"""

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.session import Event
from benchorch.domain.trial import Plan, Trial, node_of
from benchorch.errors import ExecutorError
from benchorch.host.advice import BAD, GOOD, NOTE
from benchorch.models.trust import session_of
from benchorch.trial.supervisor import run_trial
from benchorch.units import ns_to_s

# Goals: shares of a process's time, and of a timed call.
MOST_OWN_RATIO = 0.25
MOST_TIMING_RATIO = 0.01

PROCESSES = 5
WINDOW_S = 0.5

_NEXT_PROCESS = re.compile(r"process \d+")
_FLOOR = """
import os, sys, torch
from torch import nn
torch.set_num_threads(1)
widths = [int(word) for word in sys.argv[1:]]
layers = [layer for size in zip(widths, widths[1:]) for layer in (nn.Linear(*size), nn.ReLU())]
with torch.inference_mode():
    nn.Sequential(*layers[:-1]).eval()(torch.zeros(1, widths[0]))
os._exit(0)
"""


def overrides(processes: int = PROCESSES) -> list[str]:
    """Overrides for short, equal trials, of one thread as the bare process."""
    return [
        *("model=mlp", "hardware=local", "hardware.threads=1", "recorder=none", "baseline=eager"),
        *("scenario=single_stream", "executor=process", "protocol.repeats=0"),
        *("stopping=fixed", f"stopping.processes={processes}", f"stopping.window_s={WINDOW_S}"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """benchorch's share of the time of a trial's processes.

    Attributes:
        share: of a process's wall time: all but the model's calls and the floor.
        over_floor: everything but the model's calls, as a multiple of the floor.
        timed_call_ratio: of a timed call, what reading the clock and looping takes.
        process_s, calls_s, floor_s: medians: a process, its calls of the model, a bare process.
    """

    share: Estimate
    over_floor: Estimate
    timed_call_ratio: float
    process_s: float
    calls_s: float
    floor_s: float

    @property
    def weight(self) -> str:
        """Good where the whole share is as asked, bad where none of it is, else not known.

        A share below 0 says that the bare processes were held up, and nothing of benchorch.
        """
        low, high = self.share.low, self.share.high
        if low is None or high is None or low < 0:
            return NOTE
        if high <= MOST_OWN_RATIO:
            return GOOD
        return BAD if low > MOST_OWN_RATIO else NOTE


def overhead(plan: Plan, trial: Trial, directory: Path) -> Overhead:
    """Interleave a trial's processes with bare ones.

    Raises ExecutorError where either fails.

    Args:
        trial: of the eager MLP.
        directory: where the trial's files go.
    """
    widths = cast("Sequence[int]", node_of(trial.spec, "model")["widths"])
    floors_s: list[float] = []

    def between_processes(event: Event) -> None:
        if event.stage == "measure" and _NEXT_PROCESS.fullmatch(event.message):
            floors_s.append(_floor_s(widths))

    session = replace(session_of(plan, directory), profiler={})
    result = run_trial(trial, session=session, attempt=1, isolated=True, emit=between_processes)
    if result.failure:
        raise ExecutorError(f"A trial of the eager MLP failed: {result.failure.message}")
    return summarise(result.processes, floors_s)


def summarise(processes: Sequence[ProcessRecord], floors_s: Sequence[float]) -> Overhead:
    """The overhead of processes that each ran beside one bare process, in seconds."""
    calls_s = [_calls_s(process) for process in processes]
    rest_s = [p.elapsed_s - calls for p, calls in zip(processes, calls_s, strict=True)]
    shares = [
        (rest - floor) / process.elapsed_s
        for process, rest, floor in zip(processes, rest_s, floors_s, strict=True)
    ]
    multiples = [rest / floor for rest, floor in zip(rest_s, floors_s, strict=True)]
    return Overhead(
        share=_median(shares),
        over_floor=_median(multiples),
        timed_call_ratio=statistics.median(map(_timed_call_ratio, processes)),
        process_s=statistics.median(process.elapsed_s for process in processes),
        calls_s=statistics.median(calls_s),
        floor_s=statistics.median(floors_s),
    )


def _calls_s(process: ProcessRecord) -> float:
    """Seconds of the model's calls, the first one aside, which the floor has too."""
    spent_ns = sum(process.observations.durations_ns)
    if process.split is not None:
        spent_ns += sum(process.split.joined_ns)
        spent_ns += sum(sum(passes) for passes in process.split.stages_ns.values())
    return ns_to_s(spent_ns)


def _timed_call_ratio(process: ProcessRecord) -> float:
    """Clock readings and loop iterations as a share of a median block."""
    calibration, observed = process.calibration, process.observations
    own_ns = calibration.pair_cost_ns + observed.calls_per_block * calibration.loop_turn_ns
    return own_ns / statistics.median(observed.durations_ns)


def _floor_s(widths: Sequence[int]) -> float:
    started_s = time.monotonic()
    command = [sys.executable, "-P", "-c", _FLOOR, *map(str, widths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last_line = done.stderr.strip().rpartition("\n")[2]
        raise ExecutorError(f"A bare process failed: {last_line}")
    return time.monotonic() - started_s


def _median(values: Sequence[float]) -> Estimate:
    """The median with the smallest and the largest, as n is small."""
    return Estimate(
        value=statistics.median(values),
        low=min(values),
        high=max(values),
        level_ratio=1 - 2 * 0.5 ** len(values),
        n=len(values),
        unit="ratio",
        method="median over processes; smallest and largest",
    )
