"""What does it cost to find the critical path of a trace of so many events?

Made-up traces with a realistic mix: steps of nested operators with shapes, launches, kernels,
arrows, stream waits and synchronisations. Every figure is of a process of its own
that finds bytecode of all modules, as after an installation; of three the one in the middle, of the
largest trace the only one.

    python benchmarks/trace_speed.py [--largest] [--profile]

`--largest` adds ten million events (3 GB on disk, 4 GB of memory); `--profile` prints where the
time of a million goes. Beside the limits it says how far the path is from its target, and how
much more ten times the events cost. Fails above the limits.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

RESULTS = Path(__file__).resolve().parent / "results" / "trace_speed.txt"
PER_UNIT = 7  # complete events of one operator
WHAT_IFS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What a trace of so many events may cost; the target is what the path should."""

    events: int
    path_s: float
    all_s: float
    peak_mb: float
    target_s: float


LIMITS = (
    Limit(events=100_000, path_s=0.5, all_s=1.5, peak_mb=250, target_s=0.35),
    Limit(events=1_000_000, path_s=6, all_s=12, peak_mb=900, target_s=3.5),
    Limit(events=10_000_000, path_s=60, all_s=90, peak_mb=4_300, target_s=35),
)


class _Clock:
    """Where the host and two streams have got to, in nanoseconds."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.host_ns = 1_000_000
        self.stream_ns = {7: 0, 20: 0}

    def launched(self, stream: int, called_ns: int, ns: int) -> int:
        """When work queued by a call starts."""
        start_ns = max(called_ns + 7_000, self.stream_ns[stream] + 1_100)
        self.stream_ns[stream] = start_ns + ns
        return start_ns


def write_trace(path: Path, events: int) -> None:
    """About so many complete events: steps of 500 operators each."""
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "baseTimeNanoseconds": 1727000000000000000,\n')
        file.write('"deviceProperties": [], "displayTimeUnit": "ms", "traceEvents": [\n')
        file.write(_meta("process_name", '"name": "python"'))
        clock = _Clock()
        for number, _ in enumerate(range(0, events, 500 * PER_UNIT)):
            _step(file, clock, number)
        file.write(_meta("process_labels", '"labels": "CPU"').rstrip(",\n"))
        file.write("\n]}\n")


def _meta(name: str, args: str) -> str:
    return f'{{"ph": "M", "name": "{name}", "ts": 0.0, "pid": 1, "tid": 1, "args": {{{args}}}}},\n'


def _step(file: TextIO, clock: _Clock, number: int) -> None:
    start_ns = clock.host_ns
    clock.host_ns += 15_000
    for unit in range(500):
        correlation = (number * 500 + unit) * 4 + 10
        stream = 20 if unit % 40 == 7 else 7
        if unit % 40 in (7, 8):
            file.write(_stream_wait(clock, correlation, stream))
        file.write(_operator(clock, correlation, unit, stream))
    correlation = (number * 500 + 500) * 4 + 9
    file.write(_device_sync(clock, correlation))
    end_ns = clock.host_ns = clock.host_ns + 9_000
    args = f'"External id": {correlation}'
    file.write(_host("user_annotation", f"ProfilerStep#{number}", start_ns, end_ns, args))


def _operator(clock: _Clock, correlation: int, unit: int, stream: int) -> str:
    """A call with children of its own, one of which launches a kernel."""
    rng, start = clock.rng, clock.host_ns
    launch = start + 14_000 + rng.randrange(3_000)
    end = launch + 4_500 + rng.randrange(4_000)
    kernel_ns = rng.choice((3_000, 9_000, 18_000, 40_000)) + rng.randrange(2_000)
    begun = clock.launched(stream, launch, kernel_ns)
    clock.host_ns = end + 2_500 + rng.randrange(3_000)
    ids = f'"External id": {correlation}, "Record function id": 0, "Ev Idx": {correlation}'
    shapes = (
        f'{ids}, "Input type": ["float", "float", "float"], "Input Strides": [[1], [768, 1], '
        '[1, 768]], "Input Dims": [[768], [128, 768], [768, 768]], "Concrete Inputs": ["", "", ""]'
    )
    outer, inner = f"aten::layer_{unit % 30}", f"aten::inner_{unit % 30}"
    call = f'"External id": {correlation}, "cbid": 211, "correlation": {correlation}'
    kernel = (
        f'"External id": {correlation}, "queued": 0, "device": 0, "context": 1, "stream": {stream}'
        f', "correlation": {correlation}, "registers per thread": 32, "shared memory": 0, "blocks '
        'per SM": 7.2, "warps per SM": 57.7, "grid": [960, 1, 1], "block": [256, 1, 1], '
        '"est. achieved occupancy %": 90'
    )
    return "".join(
        (
            _host("cpu_op", outer, start, end, shapes),
            _host("cpu_op", "aten::t", start + 1_500, start + 6_000, ids),
            _host("cpu_op", "aten::transpose", start + 2_500, start + 5_500, ids),
            _host("cpu_op", "aten::as_strided", start + 3_500, start + 4_200, ids),
            _host("cpu_op", inner, start + 7_000, end - 600, shapes),
            _host("cuda_runtime", "cudaLaunchKernel", launch, launch + 4_000, call),
            _arrow("s", 1, 1, launch, correlation),
            _device("kernel", f"gemm_{unit % 60}", stream, begun, begun + kernel_ns, kernel),
            _arrow("f", 0, stream, begun, correlation),
        )
    )


def _stream_wait(clock: _Clock, correlation: int, stream: int) -> str:
    """An event of one stream, and the other waits for it."""
    other = 27 - stream
    record, wait = clock.host_ns, clock.host_ns + 1_500
    clock.host_ns += 3_000
    clock.stream_ns[stream] = max(clock.stream_ns[stream], clock.stream_ns[other])
    sync = (
        f'"cuda_sync_kind": "Stream Wait Event", "wait_on_stream": {other}, '
        f'"wait_on_cuda_event_record_corr_id": {correlation + 1}, "wait_on_cuda_event_id": 1, '
        f'"stream": {stream}, "correlation": {correlation + 2}, "device": 0, "context": 1'
    )
    calls = (("cudaEventRecord", record, 1), ("cudaStreamWaitEvent", wait, 2))
    rows = [
        _host("cuda_runtime", name, at, at + 1_200, f'"correlation": {correlation + offset}')
        for name, at, offset in calls
    ]
    return "".join(
        (*rows, _device("cuda_sync", "Stream Wait Event", stream, wait, wait + 900, sync))
    )


def _device_sync(clock: _Clock, correlation: int) -> str:
    start_ns = clock.host_ns
    end_ns = clock.host_ns = max(start_ns + 3_000, *(at + 2_000 for at in clock.stream_ns.values()))
    call = f'"correlation": {correlation}'
    sync = (
        f'"cuda_sync_kind": "Context Sync", "stream": -1, "correlation": {correlation}, '
        '"device": 0, "context": 1'
    )
    return _host("cuda_runtime", "cudaDeviceSynchronize", start_ns, end_ns, call) + _device(
        "cuda_sync", "Context Sync", -1, start_ns + 100, end_ns - 100, sync
    )


def _host(category: str, name: str, start_ns: int, end_ns: int, args: str) -> str:
    return _complete(category, name, 1, 1, start_ns, end_ns, args)


def _device(category: str, name: str, stream: int, start_ns: int, end_ns: int, args: str) -> str:
    return _complete(category, name, 0, stream, start_ns, end_ns, args)


def _complete(
    category: str, name: str, pid: int, tid: int, start_ns: int, end_ns: int, args: str
) -> str:
    times = f'"ts": {start_ns / 1e3:.3f}, "dur": {(end_ns - start_ns) / 1e3:.3f}'
    return (
        f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {pid}, "tid": {tid}, '
        f'{times}, "args": {{{args}}}}},\n'
    )


def _arrow(phase: str, pid: int, tid: int, at_ns: int, number: int) -> str:
    return (
        f'{{"ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {tid}, "ts": {at_ns / 1e3:.3f}, '
        f'"cat": "ac2g", "name": "ac2g"}},\n'
    )


class Work:
    """What is timed, one step after another."""

    def __init__(self, trace: Path, place: Path) -> None:
        """Of a trace, with a place for what is written."""
        self.trace = trace
        self.place = place

    def load(self) -> None:
        """The file as columns."""
        from benchorch.trace.readers.open import read_events

        self.events = read_events(self.trace)

    def build(self) -> None:
        """All of it as one window."""
        from benchorch.trace.dag import Window
        from benchorch.trace.graph.build import build_dag

        begin_ns, end_ns = int(self.events.start_ns.min()), int(self.events.end_ns.max())
        self.dag = build_dag(self.events, Window(start_ns=begin_ns, end_ns=end_ns))

    def path(self) -> None:
        """The critical path."""
        from benchorch.trace.critical_path.path import critical_path

        self.critical = critical_path(self.dag)

    def analysis_of_steps(self) -> None:
        """Everything that is said of all steps: graph, path, tables, verdict."""
        from benchorch.trace.analysis import analyze

        self.analysis = analyze(self.events)

    def whatifs(self) -> None:
        """One kernel at a time twice as fast."""
        from benchorch.trace.whatif.basis import Selector, prepare
        from benchorch.trace.whatif.predict import predict
        from benchorch.trace.whatif.transforms import Change

        basis = prepare(self.analysis)
        for number in range(WHAT_IFS):
            select = Selector(kernel=f"gemm_{number}")
            predict(basis, [Change(effect="speedup", select=select, value=2.0)])

    def artifacts(self) -> None:
        """All files."""
        from benchorch.trace.report.write import write

        write(self.analysis, self.place)


PATH = ("load", "build", "path")
EVERYTHING = ("load", "analysis_of_steps", "whatifs", "artifacts")  # as the command does it
Measured = tuple[dict[str, float], float]


def child(trace: Path, everything: bool, profiled: bool) -> None:
    """CPU seconds of every step as one line of JSON, with the process's peak."""
    taken: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        work = Work(trace, Path(place))
        for name in EVERYTHING if everything else PATH:
            profile = cProfile.Profile()
            before = time.process_time()
            if profiled:
                profile.runcall(getattr(work, name))
                print(f"== {name}", file=sys.stderr)
                pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(12)
            else:
                getattr(work, name)()
            taken[name] = time.process_time() - before
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps({"steps_s": taken, "peak_mb": peak_mb}))


def measure(trace: Path, everything: bool, profiled: bool = False) -> Measured:
    """CPU seconds by step and peak MB of a fresh process, whose modules are compiled already."""
    command = [sys.executable, __file__, "--child", str(trace), str(everything), str(profiled)]
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(trace.parent / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    said = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment
    ).stdout
    found = json.loads(said.splitlines()[-1])
    return found["steps_s"], found["peak_mb"]


def measured(trace: Path, everything: bool, times: int) -> Measured:
    """The process in the middle of several, by its CPU seconds."""
    found = [measure(trace, everything) for _ in range(times)]
    return sorted(found, key=lambda one: sum(one[0].values()))[times // 2]


def rows(limits: tuple[Limit, ...], profiled: bool) -> Iterator[tuple[str, bool]]:
    """A line of the table for every size, and whether it is within the limits."""
    before_s: tuple[float, float] | None = None
    for limit in limits:
        with tempfile.TemporaryDirectory() as at:
            trace = Path(at) / "trace.json"
            write_trace(trace, limit.events)
            size_mb = trace.stat().st_size / 1e6
            times = 1 if limit.events > 1_000_000 else 3
            if times > 1:
                measure(trace, everything=True)  # compiles every module
            path, path_mb = measured(trace, everything=False, times=times)
            both, all_mb = measured(trace, everything=True, times=times)
            if profiled and limit.events == 1_000_000:
                measure(trace, everything=True, profiled=True)
        path_s, all_s = sum(path.values()), sum(both.values())
        parts = " + ".join(f"{name} {taken_s:.2f}" for name, taken_s in both.items())
        good = path_s <= limit.path_s and all_s <= limit.all_s
        good = good and max(path_mb, all_mb) <= limit.peak_mb
        growth = f"{path_s / before_s[0]:.1f}, {all_s / before_s[1]:.1f}" if before_s else "-"
        before_s = path_s, all_s
        yield (
            (
                f"| {limit.events:.0e} ({size_mb:.0f} MB) | {path_s:.2f} "
                f"(limit {limit.path_s:g}, target {limit.target_s:g}) "
                f"| {all_s:.2f} (limit {limit.all_s:g}) | {path_mb:.0f} "
                f"| {all_mb:.0f} (limit {limit.peak_mb:g}) | {growth} | {parts} |"
            ),
            good,
        )


def main() -> None:
    if "--child" in sys.argv:
        at, everything, profiled = sys.argv[2:5]
        child(Path(at), everything == "True", profiled == "True")
        return
    limits = LIMITS if "--largest" in sys.argv else LIMITS[:2]
    lines = [
        "| events | load + build + path, CPU s | everything, CPU s | peak MB | peak MB, everything "
        "| times the row above, path and everything | CPU s by step |",
        "|---|---|---|---|---|---|---|",
    ]
    verdicts = []
    began = os.getloadavg()[0]
    for line, good in rows(limits, "--profile" in sys.argv):
        lines.append(line)
        verdicts.append(good)
    busy = f"{os.cpu_count()} cores, load average {began:.1f} to {os.getloadavg()[0]:.1f}"
    text = "\n".join([*lines, "", busy])
    print(text)
    RESULTS.write_text(text + "\n")
    if not all(verdicts):
        raise SystemExit("above a limit")


if __name__ == "__main__":
    main()
