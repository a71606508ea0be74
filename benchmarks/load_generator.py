"""What the load generator costs for each request, and how late it starts one that may start.

Own cost: requests that are all overdue and answered at once by a call that does nothing, so that
only the generator is left; beside it a bare loop that reads the clock around the same call, and,
given an interpreter that has MLPerf's LoadGen, its Python binding in single-stream mode, answered
at once and through a second thread. All in turns, in random order, by wall and by CPU time.

Lateness: calls of a millisecond at a constant 200 a second, each with an idle wait before it.

    python benchmarks/load_generator.py [ROUNDS] [PYTHON_WITH_LOADGEN]     default 7 and none
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from _harness import interleave

REQUESTS = 20_000
LATE_FOR_S = 10.0
LATE_RATE_PER_S = 200.0
US = 1e6

# Runs in the other interpreter; prints wall and CPU microseconds a query.
LOADGEN = """
import queue, sys, threading, time
import mlperf_loadgen as lg

asked, done = queue.SimpleQueue(), [0]

def answer(samples):
    done[0] += len(samples)
    lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, 0, 0) for s in samples])

def work():
    while (samples := asked.get()) is not None:
        answer(samples)

handed = sys.argv[1] == "handed"
sut = lg.ConstructSUT(asked.put if handed else answer, lambda: None)
library = lg.ConstructQSL(1, 1, lambda _: None, lambda _: None)
settings = lg.TestSettings()
settings.scenario = lg.TestScenario.SingleStream
settings.mode = lg.TestMode.PerformanceOnly
settings.min_duration_ms = 0
settings.min_query_count = settings.max_query_count = int(sys.argv[2])
output = lg.LogOutputSettings()
output.outdir, output.copy_summary_to_stdout = sys.argv[3], False
logs = lg.LogSettings()
logs.log_output, logs.enable_trace = output, False
thread = threading.Thread(target=work)
thread.start()
wall, cpu = time.perf_counter(), time.process_time()
lg.StartTestWithLogSettings(sut, library, settings, logs)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
asked.put(None)
thread.join()
print(wall / done[0] * 1e6, cpu / done[0] * 1e6)
"""


def main(rounds: int, other_python: str | None) -> None:
    sides: dict[str, Callable[[], tuple[float, float]]] = {
        "bare loop": bare,
        "benchorch": ours,
    }
    if other_python:
        for how in ("inline", "handed"):
            sides[f"LoadGen, {how}"] = lambda how=how: loadgen(other_python, how)
    seen = interleave(sides, rounds)
    print(f"own cost of one request, {rounds} rounds of {REQUESTS}, in turns (goal: 20 µs)\n")
    for name, samples in seen.items():
        wall, cpu = (sorted(part)[len(part) // 2] for part in zip(*samples, strict=True))
        print(f"  {name:<16} {wall * US:7.2f} µs wall {cpu * US:7.2f} µs CPU")
    print("\nbenchorch over each, by CPU time: median (5th to 95th percentile of rounds)\n")
    for name in seen:
        if name != "benchorch":
            ratios = sorted(a[1] / b[1] for a, b in zip(seen["benchorch"], seen[name], strict=True))
            low, high = ratios[round(0.05 * len(ratios))], ratios[round(0.95 * len(ratios)) - 1]
            goal = " (goal: 0.5)" if "handed" in name else ""
            print(f"  {name:<16} {statistics.median(ratios):5.2f} ({low:.2f} to {high:.2f}){goal}")
    lateness()


def nothing() -> None:
    pass


def bare() -> tuple[float, float]:
    """Seconds of wall and CPU for one request of a loop that anybody would write."""
    started, taken = [], []
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(REQUESTS):
        before = time.perf_counter_ns()
        nothing()
        taken.append(time.perf_counter_ns() - before)
        started.append(before)
    return _each(wall, cpu)


def ours() -> tuple[float, float]:
    """The same for the generator."""
    from benchorch.hardware.cpu import CpuClock
    from benchorch.scenarios.virtual_queue import QueryQueue, serve

    clock = CpuClock()
    line = QueryQueue([clock.now_ns()] * REQUESTS, 2**62)
    wall, cpu = time.perf_counter(), time.process_time()
    serve(line, [nothing], clock, servers=1, max_batch=1)
    return _each(wall, cpu)


def _each(wall: float, cpu: float) -> tuple[float, float]:
    ended = time.perf_counter(), time.process_time()
    return (ended[0] - wall) / REQUESTS, (ended[1] - cpu) / REQUESTS


def loadgen(other_python: str, how: str) -> tuple[float, float]:
    """The same for LoadGen's Python binding."""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        told = subprocess.run(
            [other_python, "-c", LOADGEN, how, str(REQUESTS), place],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
    return float(told[-2]) / US, float(told[-1]) / US


def lateness() -> None:
    import numpy as np

    from benchorch.hardware.cpu import CpuClock
    from benchorch.host.noise_grade import grade
    from benchorch.scenarios.server import Server
    from benchorch.stats.queueing import lateness_ns, stretches
    from benchorch.stopping.fixed import Fixed

    clock = CpuClock()

    def call() -> None:
        until_ns = clock.now_ns() + 1_000_000
        while clock.now_ns() < until_ns:
            pass

    observed = Server(
        rate_per_s=LATE_RATE_PER_S, arrivals="constant", duration_s=LATE_FOR_S, min_queries=0
    ).run(
        [call],
        clock=clock,
        calibration=clock.calibrate(),
        stopping=Fixed(),
        items_per_call=1,
    )
    (stretch,) = stretches(observed)
    late_us = lateness_ns(stretch) / 1000
    p50, p90, p99 = np.quantile(late_us, [0.5, 0.9, 0.99])
    print(
        f"\nlateness over {late_us.size} idle starts: p50 {p50:.1f}, p90 {p90:.1f}, "
        f"p99 {p99:.1f} µs (goal: p99 100 µs on nodes of grade A and B; "
        f"this one is {grade().letter})"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7, sys.argv[2] if len(sys.argv) > 2 else None)
