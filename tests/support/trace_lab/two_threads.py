"""Two threads that wait for each other: programs that can be profiled, and then really changed.

Their stages sleep unless somebody passes other work. Sleeping takes as long on a busy machine as
on an idle one, so that what is held against a prediction is the prediction and not the machine.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

Stage = Callable[[str], None]  # does the stage of that name
CALL = "benchorch:call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Programs that differ in how long their stages take.

    Attributes:
        run: one execution; it opens a recorded range for every stage and wait.
        stages_ms: how long each stage takes when nothing is changed.
        changes: which stages take how many times as long, by what the change is meant to show.
    """

    run: Callable[[Stage], None]
    stages_ms: Mapping[str, float]
    changes: Mapping[str, Mapping[str, float]]


def sleeper(stages_ms: Mapping[str, float]) -> Stage:
    """Stages that sleep."""

    def sleep(name: str) -> None:
        from torch.profiler import record_function

        with record_function(name):
            time.sleep(stages_ms[name] / 1e3)

    return sleep


def _started(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target)
    thread.start()
    return thread


def _joined(thread: threading.Thread) -> None:
    from torch.profiler import record_function

    with record_function("wait:join"):
        thread.join()


def fork_and_join(stage: Stage) -> None:
    """The main thread starts a worker, does its own part, and waits."""
    stage("before")
    thread = _started(lambda: stage("worker"))
    stage("beside")
    _joined(thread)
    stage("after")


def pipeline(stage: Stage) -> None:
    """The main thread produces three items that the worker consumes as they come."""
    from torch.profiler import record_function

    items: queue.Queue[int] = queue.Queue()

    def consume() -> None:
        for number in range(3):
            with record_function("wait:queue.get"):
                items.get()
            stage(f"consume {number}")

    thread = _started(consume)
    for number in range(3):
        stage(f"produce {number}")
        items.put(number)
    _joined(thread)
    stage("after")


def ping_pong(stage: Stage) -> None:
    """Each waits for the other's answer, twice, with work of its own meanwhile."""
    from torch.profiler import record_function

    there: queue.Queue[int] = queue.Queue()
    back: queue.Queue[int] = queue.Queue()

    def answer() -> None:
        for number in range(2):
            with record_function("wait:queue.get"):
                there.get()
            stage(f"answer {number}")
            back.put(number)

    thread = _started(answer)
    for number in range(2):
        stage(f"ask {number}")
        there.put(number)
        stage(f"meanwhile {number}")
        with record_function("wait:queue.get"):
            back.get()
    _joined(thread)
    stage("after")


FAMILIES = {
    "fork and join": Family(
        run=fork_and_join,
        stages_ms={"before": 40, "worker": 120, "beside": 60, "after": 40},
        changes={
            "off the path, within its slack": {"beside": 1.5},
            "off the path, beyond its slack": {"beside": 3.0},
            "on the path, faster": {"after": 0.5},
            "on the path, slower": {"worker": 1.5},
            "path switches": {"worker": 0.25},
            "path switches, both change": {"worker": 0.25, "beside": 1.5},
            "removed": {"before": 0.0},
        },
    ),
    "pipeline": Family(
        run=pipeline,
        stages_ms={
            **{f"produce {i}": 40 for i in range(3)},
            **{f"consume {i}": 60 for i in range(3)},
            "after": 40,
        },
        changes={
            "consumer faster": {f"consume {i}": 0.5 for i in range(3)},
            "producer within its slack": {"produce 2": 1.5},
            "producer slower": {f"produce {i}": 2.0 for i in range(3)},
            "first item later": {"produce 0": 2.0},
            "last item faster": {"consume 2": 0.25},
        },
    ),
    "ping-pong": Family(
        run=ping_pong,
        stages_ms={
            **{f"ask {i}": 20 for i in range(2)},
            **{f"answer {i}": 80 for i in range(2)},
            **{f"meanwhile {i}": 40 for i in range(2)},
            "after": 40,
        },
        changes={
            "answers faster": {"answer 0": 0.75, "answer 1": 0.75},
            "meanwhile longer than the answer": {"meanwhile 0": 3.0},
            "meanwhile within its slack": {"meanwhile 1": 1.5},
            "asked later": {"ask 1": 3.0},
        },
    ),
}


def scaled(stages_ms: Mapping[str, float], factors: Mapping[str, float]) -> Mapping[str, float]:
    """Stages of a changed program."""
    return {name: ms * factors.get(name, 1.0) for name, ms in stages_ms.items()}


def taken_ns(program: Callable[[], None]) -> int:
    """How long one execution took."""
    before = time.monotonic_ns()
    program()
    return time.monotonic_ns() - before


def profiled(program: Callable[[], None], path: Path) -> Path:
    """A trace of one execution, all threads included, in the range of a call."""
    from torch._C._profiler import _ExperimentalConfig
    from torch.profiler import ProfilerActivity, profile, record_function

    every_thread = _ExperimentalConfig(profile_all_threads=True)
    with (
        profile(activities=[ProfilerActivity.CPU], experimental_config=every_thread) as profiler,
        record_function(CALL),
    ):
        program()
    profiler.export_chrome_trace(str(path))
    return path
