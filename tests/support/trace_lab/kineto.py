"""The JSON that the PyTorch profiler would have written of a run, with its usual blemishes."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from support.trace_lab.simulator import Interval, Run

PROCESS = 4_242
_BASE_NS = 1_727_000_000_000_000_000
_BEGIN_NS = 5_000_000_000  # a profile never starts at zero
_STARTS_NOTHING = {"cudaEventQuery", "cudaEventRecord", "cudaStreamWaitEvent"}


class Stamps(StrEnum):
    """How exporters wrote times over the years."""

    NANOSECONDS = "ns"  # microseconds since a base, with three decimals
    MICROSECONDS = "us"  # whole ones: starts and durations are cut off each for itself
    EPOCH = "epoch"  # microseconds since 1970 in a double: a quantum of a quarter microsecond


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """How a run was recorded, and what went wrong with it.

    Attributes:
        waits: whether host waits are ``wait:`` ranges.
        syncs: the share of the device's synchronisation rows that made it into the file.
        resolved: whether stream waits say which record they wait for.
        strings: whether numbers of processes, threads and streams are strings.
        skew_ns: added to the device's clock.
        threads: whether threads other than the main one were recorded at all.
        moved_syncs: whether rows of synchronisations have a thread number of their own.
        flows: whether arrows are in the file.
        shift_ns: added to all times; `shuffle` is the seed of another order of rows.
        numbers: thread numbers by name, to rename lanes; `scale` multiplies all times.
    """

    stamps: Stamps = Stamps.NANOSECONDS
    waits: bool = True
    syncs: float = 1.0
    resolved: bool = True
    strings: bool = False
    skew_ns: int = 0
    threads: bool = True
    moved_syncs: bool = False
    flows: bool = True
    shift_ns: int = 0
    shuffle: int | None = None
    numbers: Mapping[str, int] | None = None
    scale: int = 1
    seed: int = 0


def document(run: Run, recording: Recording | None = None) -> dict[str, Any]:
    """A whole file."""
    recording = recording or Recording()
    rows = list(_Writer(run, recording).rows())
    if recording.shuffle is not None:
        random.Random(recording.shuffle).shuffle(rows)
    head: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "Imaginary", "numSms": 100}],
        "record_shapes": 1,
        "displayTimeUnit": "ms",
        "traceName": "made-up.json",
    }
    if recording.stamps is not Stamps.EPOCH:
        head["baseTimeNanoseconds"] = _BASE_NS
    return {**head, "traceEvents": rows}


def write(run: Run, path: Path, recording: Recording | None = None) -> Path:
    """A file of it."""
    path.write_text(json.dumps(document(run, recording)))
    return path


class _Writer:
    def __init__(self, run: Run, recording: Recording) -> None:
        self.run = run
        self.how = recording
        self.random = random.Random(recording.seed)
        given = recording.numbers or {}
        self.threads = {
            name: given.get(name, PROCESS + position) for position, name in enumerate(run.threads)
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        yield from self.metadata()
        for interval in self.run.intervals:
            if self.recorded(interval):
                yield from self.row(interval)

    def metadata(self) -> Iterator[dict[str, Any]]:
        for pid, label in ((PROCESS, "CPU"), (0, "GPU 0")):
            for name, args in (
                ("process_name", {"name": "python"}),
                ("process_labels", {"labels": label}),
            ):
                yield self.meta(name, pid, 0, args)
        for name, tid in self.threads.items():
            yield self.meta("thread_name", PROCESS, tid, {"name": f"thread {tid} ({name})"})
        streams = {one.lane.stream for one in self.run.intervals if one.lane.stream is not None}
        for stream in sorted(streams):
            yield self.meta("thread_name", 0, stream, {"name": f"stream {stream} "})

    def meta(self, name: str, pid: int, tid: int, args: Mapping[str, str]) -> dict[str, Any]:
        ts = self.stamp(0)
        return {"ph": "M", "name": name, "ts": ts, "pid": pid, "tid": tid, "args": dict(args)}

    def recorded(self, interval: Interval) -> bool:
        if interval.name.startswith("wait:") and not self.how.waits:
            return False
        return self.how.threads or interval.lane.stream is not None or self.is_main(interval)

    def is_main(self, interval: Interval) -> bool:
        return interval.lane.name == self.run.threads[0]

    def row(self, interval: Interval) -> Iterator[dict[str, Any]]:
        start_ns, end_ns = self.span(interval)
        on_device = interval.lane.stream is not None
        yield {
            "ph": "X",
            "cat": interval.category,
            "name": interval.name,
            "pid": self.number(0 if on_device else PROCESS),
            "tid": self.number(
                interval.lane.stream if on_device else self.threads[interval.lane.name]
            ),
            "ts": self.stamp(start_ns),
            "dur": self.duration(start_ns, end_ns),
            "args": self.arguments(interval),
        }
        if "sync" in interval.facts and self.random.random() < self.how.syncs:
            yield self.sync(interval, start_ns, end_ns)
        if self.how.flows and "correlation" in interval.facts:
            yield self.flow(interval, start_ns)

    def span(self, interval: Interval) -> tuple[int, int]:
        skew_ns = self.how.skew_ns if interval.lane.stream is not None else 0
        begin_ns = _BEGIN_NS + self.how.shift_ns + skew_ns
        start_ns = self.run.start_ns(interval) * self.how.scale
        return begin_ns + start_ns, begin_ns + self.run.end_ns(interval) * self.how.scale

    def stamp(self, ns: int) -> float | int:
        if self.how.stamps is Stamps.MICROSECONDS:
            return ns // 1_000
        if self.how.stamps is Stamps.EPOCH:
            return _BASE_NS / 1_000 + ns / 1_000
        return math.floor(ns) / 1_000

    def duration(self, start_ns: int, end_ns: int) -> float | int:
        if self.how.stamps is Stamps.MICROSECONDS:
            return (end_ns - start_ns) // 1_000
        return (end_ns - start_ns) / 1_000

    def number(self, value: int) -> int | str:
        return str(value) if self.how.strings else value

    def arguments(self, interval: Interval) -> dict[str, Any]:
        facts = interval.facts
        if interval.lane.stream is not None:
            return self.device_arguments(interval)
        if interval.category == "cuda_runtime":
            known = {"External id": facts["External id"]} if "External id" in facts else {}
            return {**known, "cbid": 211, "correlation": facts["correlation"]}
        return {"External id": facts["External id"], "Record function id": 0}

    def device_arguments(self, interval: Interval) -> dict[str, Any]:
        facts = interval.facts
        common: dict[str, Any] = {
            "device": 0,
            "context": 1,
            "stream": self.number(int(facts["stream"])),
            "correlation": facts["correlation"],
        }
        if "External id" in facts:
            common["External id"] = facts["External id"]
        if "graph id" in facts:
            common |= {"graph id": facts["graph id"], "graph node id": facts["graph node id"]}
        if interval.category != "kernel":
            return {**common, "bytes": 4_096, "memory bandwidth (GB/s)": 1.5}
        return {
            **common,
            "queued": 0,
            "registers per thread": 32,
            "shared memory": 0,
            "blocks per SM": 1.0,
            "warps per SM": 4.0,
            "grid": [100, 1, 1],
            "block": [128, 1, 1],
            "est. achieved occupancy %": 50,
        }

    def sync(self, interval: Interval, start_ns: int, end_ns: int) -> dict[str, Any]:
        """The row of the device's side of a synchronisation: a little inside the host's call."""
        facts = interval.facts
        stream = int(facts["stream"])
        first_ns = start_ns + 100 * self.how.scale
        inner_ns = (first_ns, max(first_ns, end_ns - 150 * self.how.scale))
        args: dict[str, Any] = {
            "cuda_sync_kind": facts["sync"],
            "stream": self.number(stream),
            "correlation": facts["correlation"],
            "device": 0,
            "context": 1,
        }
        if "awaited" in facts:
            args["wait_on_stream"] = facts["source"] if self.how.resolved else -1
            args["wait_on_cuda_event_record_corr_id"] = (
                facts["awaited"] if self.how.resolved else -1
            )
            args["wait_on_cuda_event_id"] = facts["awaited"]
        tid = stream + 1_000_000 if self.how.moved_syncs and stream >= 0 else stream
        return {
            "ph": "X",
            "cat": "cuda_sync",
            "name": facts["sync"],
            "pid": self.number(0),
            "tid": self.number(tid),
            "ts": self.stamp(inner_ns[0]),
            "dur": self.duration(*inner_ns),
            "args": args,
        }

    def flow(self, interval: Interval, start_ns: int) -> dict[str, Any]:
        """Calls that start nothing get the end of an arrow, as real exporters write it."""
        on_device = interval.lane.stream is not None
        ends = on_device or interval.name in _STARTS_NOTHING
        row: dict[str, Any] = {
            "ph": "f" if ends else "s",
            "id": interval.facts["correlation"],
            "pid": 0 if on_device else PROCESS,
            "tid": interval.lane.stream if on_device else self.threads[interval.lane.name],
            "ts": self.stamp(start_ns),
            "cat": "ac2g",
            "name": "ac2g",
        }
        return {**row, "bp": "e"} if ends else row


def names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of the complete events, in the order of the file."""
    return [str(row["name"]) for row in rows if row.get("ph") == "X"]
