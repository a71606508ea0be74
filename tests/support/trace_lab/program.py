"""Programs whose trace is made up: threads of nested ranges that use a device.

These are the words; `simulator` runs them and `generator` draws them. Nothing here or there knows
the analyser: what a call means is stated a second time, so that the two can disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class Kind(StrEnum):
    """What a range of a host thread is, in the words of the profiler's files."""

    OPERATOR = "cpu_op"
    ANNOTATION = "user_annotation"
    PYTHON = "python_function"


class Engine(StrEnum):
    """What a device does, in the words of the profiler's files."""

    KERNEL = "kernel"
    COPY = "gpu_memcpy"
    FILL = "gpu_memset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Time of the enclosing range itself; outside all ranges it is Python."""

    ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A recorded range around steps."""

    name: str
    body: tuple[Step, ...]
    kind: Kind = Kind.OPERATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A host call that queues work on a stream; a blocking one returns after that work."""

    name: str
    ns: int
    stream: int = 7
    call: str = "cudaLaunchKernel"
    call_ns: int = 4_000
    latency_ns: int = 7_000  # from the call's start to a start on an idle stream
    gap_ns: int = 1_000  # after the work before it on the stream
    engine: Engine = Engine.KERNEL
    blocking: bool = False
    exit_ns: int = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphKernel:
    """A node of a captured graph; `after` are positions of others in the same graph."""

    name: str
    ns: int
    stream: int = 7
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLaunch:
    """One host call that queues all kernels of a captured graph behind its stream."""

    graph: int
    nodes: tuple[GraphKernel, ...]
    stream: int = 7
    call_ns: int = 9_000
    latency_ns: int = 11_000
    gap_ns: int = 700


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An event that completes once everything queued on the stream so far has."""

    event: str
    stream: int = 7
    call_ns: int = 1_200


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWait:
    """What is queued on the stream from here on waits for the event as it was last recorded."""

    event: str
    stream: int = 7
    call_ns: int = 1_300


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A host call that waits for a device, for one stream or for one event."""

    stream: int | None = None
    event: str | None = None
    floor_ns: int = 3_000  # it takes as long when there is nothing to wait for
    exit_ns: int = 2_000  # from what it waited for to its return


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A host call into the runtime that starts nothing."""

    name: str = "cudaEventQuery"
    ns: int = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """From here on whoever awaits the flag may go on."""

    flag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Await:
    """The thread waits until another one signals; a ``wait:`` range where that is recorded."""

    flag: str
    what: str = "join"
    floor_ns: int = 5_000
    wake_ns: int = 8_000


Step = Work | Range | Launch | GraphLaunch | Record | StreamWait | Sync | Call | Signal | Await


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One host thread from the start of the program on; a daemon takes no part."""

    name: str
    steps: tuple[Step, ...]
    daemon: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Threads; the first is the main one.

    Attributes:
        marker: name of the ranges whose first one is measured; empty for the whole program.
        queue: how many launches a stream holds before the next call blocks.
    """

    threads: tuple[Thread, ...]
    marker: str = ""
    queue: int = 1_000


def changed(program: Program, factors: Mapping[str, float], *, children: bool = True) -> Program:
    """The same program with ranges and device work of some names faster or slower.

    A factor multiplies time: a half is twice as fast. Of a range it is its own time, and with
    `children` the host time of everything inside; device work changes only by its own name.
    """
    threads = tuple(
        replace(thread, steps=tuple(_steps(thread.steps, factors, 1.0, children)))
        for thread in program.threads
    )
    return replace(program, threads=threads)


def _steps(
    steps: tuple[Step, ...], factors: Mapping[str, float], factor: float, children: bool
) -> Iterator[Step]:
    for step in steps:
        match step:
            case Work():
                yield replace(step, ns=_times(step.ns, factor))
            case Range():
                inner = factors.get(step.name, factor if children else 1.0)
                yield replace(step, body=tuple(_steps(step.body, factors, inner, children)))
            case Launch():
                yield replace(
                    step,
                    ns=_times(step.ns, factors.get(step.name, 1.0)),
                    call_ns=_times(step.call_ns, factor if children else 1.0),
                )
            case GraphLaunch():
                nodes = tuple(
                    replace(node, ns=_times(node.ns, factors.get(node.name, 1.0)))
                    for node in step.nodes
                )
                call_ns = _times(step.call_ns, factor if children else 1.0)
                yield replace(step, nodes=nodes, call_ns=call_ns)
            case Record() | StreamWait():
                yield replace(step, call_ns=_times(step.call_ns, factor if children else 1.0))
            case Call():
                yield replace(step, ns=_times(step.ns, factor if children else 1.0))
            case _:
                yield step


def _times(ns: int, factor: float) -> int:
    return ns if factor == 1.0 else round(ns * factor)


def device_names(program: Program) -> tuple[str, ...]:
    """Names of all work of the device, each once."""
    return tuple(
        dict.fromkeys(name for thread in program.threads for name in _device_names(thread.steps))
    )


def _device_names(steps: tuple[Step, ...]) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Launch):
            yield step.name
        elif isinstance(step, GraphLaunch):
            yield from (node.name for node in step.nodes)
        elif isinstance(step, Range):
            yield from _device_names(step.body)


def operator_names(program: Program) -> tuple[str, ...]:
    """Names of all operators of all threads, each once."""
    return tuple(
        dict.fromkeys(name for thread in program.threads for name in _operator_names(thread.steps))
    )


def _operator_names(steps: tuple[Step, ...]) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Range):
            if step.kind is Kind.OPERATOR:
                yield step.name
            yield from _operator_names(step.body)
