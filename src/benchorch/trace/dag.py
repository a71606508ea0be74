"""The dependency graph of a trace: time points, and what had to pass before each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum, StrEnum
from functools import cached_property

import numpy as np

from benchorch.trace.arrays import Bools, Int8s, Int32s, Int64s, mask

NOBODY = -1  # the owner of time that belongs to no event


class Tier(IntEnum):
    """How well a dependency is known."""

    RECORDED = 0
    SEMANTIC = 1  # what the called function means
    INFERRED = 2  # from coincidence in time, conservatively
    UNEXPLAINED = 3


class EdgeKind(IntEnum):
    """Why one point cannot come before another."""

    WORK = 0  # a device's event from its start to its end
    CHAIN = 1  # the next point of a host thread
    LAUNCH = 2  # host call to device event
    STREAM = 3  # one after another on a stream
    SYNC = 4  # device to host, or stream to stream
    WAIT = 5  # a host range that waits for another thread
    FORK = 6  # a thread's busy interval after what started it
    JOIN = 7  # and what waited for it
    CARRY_IN = 8  # from the source to work that was under way
    BOUNDARY = 9  # from the source, to the sink


class Class(StrEnum):
    """Class of a time segment; every segment has exactly one."""

    GPU_COMPUTE = "gpu_compute"
    GPU_COPY = "gpu_copy"
    GPU_COMM = "gpu_comm"
    GRAPH_GAP = "graph_gap"  # between kernels of one launched graph
    STREAM_GAP = "stream_gap"
    HOST_FUNCTION = "host_function"  # that a stream called
    LAUNCH_LATENCY = "launch_latency"
    SYNC_EXIT = "sync_exit"
    CPU_COMPUTE = "cpu_compute"
    CPU_COMM = "cpu_comm"
    CPU_FRAMEWORK = "cpu_framework"
    CPU_RUNTIME = "cpu_runtime"
    CPU_PYTHON = "cpu_python"
    CPU_GAP = "cpu_gap"  # of a thread, too long to be Python between two calls
    DATA_LOADING = "data_loading"
    INPUT_OUTPUT = "input_output"
    SLEEP = "sleep"
    LOCK = "lock"
    NATIVE = "native"  # a library's own code, called from Python
    OUTSIDE = "outside"  # waiting for what the trace does not record
    BACKPRESSURE = "backpressure"
    PROFILER = "profiler"
    CARRY_IN = "carry_in"
    UNEXPLAINED = "unexplained"


CLASSES = tuple(Class)  # an edge's `label` is an index into these
HOST = (
    *(Class.CPU_COMPUTE, Class.CPU_FRAMEWORK, Class.CPU_RUNTIME),
    *(Class.CPU_PYTHON, Class.CPU_GAP),
)
"""Classes of a host's own time, that of waiting, loading and collectives left aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The interval of a trace that a graph is made of."""

    # start_ns, end_ns: on the trace's clock; the end is that of the last device work launched
    start_ns: int
    end_ns: int
    host_end_ns: int | None = None  # up to when host events belong to it; None for the end
    lane: int = NOBODY  # of the thread that marks steps, NOBODY where it is unknown
    marks: tuple[int, ...] = ()  # events of the ranges that mark steps


@dataclass(frozen=True, kw_only=True)
class Dag:
    """Points in topological order, edges sorted by head; V points, E edges.

    An edge means: `head` comes at least `weight_ns` after `tail`, where
    ``0 <= weight_ns <= time_ns[head] - time_ns[tail]``. Time that no edge into a point explains
    is that point's residual: ``residual_ns[v] = time_ns[v] - max(time_ns[tail] + weight_ns)``.
    Replaying the graph therefore gives every observed time to the nanosecond.
    """

    time_ns: Int64s  # (V,) observed times; point 0 is the source, the last one the sink
    event: Int32s  # (V,) the event that starts or ends there, NOBODY for source and sink
    lane: Int32s  # (V,) its lane
    is_end: Bools  # (V,) whether the event ends there
    residual_ns: Int64s  # (V,) unexplained time, 0 at the source
    tail: Int32s  # and head: (E,) points; ``tail < head``
    head: Int32s
    weight_ns: Int64s  # (E,) rigid time: work, overhead, gaps of Python; waiting is never a weight
    kind: Int8s  # (E,) an `EdgeKind`
    tier: Int8s  # (E,) a `Tier`
    label: Int8s  # (E,) index into `CLASSES` of what its weight is spent on
    owner: Int32s  # (E,) the event that its weight belongs to, or NOBODY
    window: Window  # what was analysed
    # fitted floors (launch latency, stream gap), dropped edges, lanes left out, ...
    facts: Mapping[str, float] = field(default_factory=dict)
    # what had to be mended, each with how often
    repairs: Mapping[str, int] = field(default_factory=dict)

    @property
    def points(self) -> int:
        """How many points there are."""
        return len(self.time_ns)

    @property
    def edges(self) -> int:
        """How many edges there are."""
        return len(self.tail)

    @cached_property
    def beside(self) -> Bools:
        """The edges along device work, or a part of it, that has an edge of its own, (E,)."""
        works = self.kind == EdgeKind.WORK
        working = mask(int(self.owner.max(initial=NOBODY)) + 2, self.owner[works])
        found: Bools = working[self.owner] & (self.owner != NOBODY) & ~works
        return found

    @property
    def makespan_ns(self) -> int:
        """From the source to the sink."""
        return int(self.time_ns[-1] - self.time_ns[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath:
    """The chain of segments that the makespan consists of, in order of time; S segments.

    They tile the window. An edge gives up to two: its weight, then the residual of its head.
    """

    start_ns: Int64s  # and duration_ns: (S,)
    duration_ns: Int64s
    edge: Int32s  # (S,) the edge that was followed
    residual: Bools  # (S,) whether it is the unexplained rest at the edge's head
    owner: Int32s  # (S,) the event it belongs to, or NOBODY
    label: Int8s  # (S,) index into `CLASSES`
    tier: Int8s  # (S,) how well it is known; of a residual UNEXPLAINED

    def __len__(self) -> int:
        """How many segments there are."""
        return len(self.start_ns)

    @property
    def length_ns(self) -> int:
        """Their sum, which is the makespan."""
        return int(self.duration_ns.sum())

    def _at(self, which: Int64s | slice) -> CriticalPath:
        return CriticalPath(**{one.name: getattr(self, one.name)[which] for one in fields(self)})

    def since(self, begin_ns: int) -> CriticalPath:
        """The part from some time on."""
        first = int(np.searchsorted(self.start_ns + self.duration_ns, begin_ns, side="right"))
        part = self._at(slice(first, None))
        start_ns = np.maximum(part.start_ns, begin_ns)
        end_ns = part.start_ns + part.duration_ns
        return replace(part, start_ns=start_ns, duration_ns=end_ns - start_ns)

    def cut_at(self, times_ns: Int64s) -> CriticalPath:
        """Path with segments cut in two at the given times."""
        times_ns = np.unique(times_ns)
        end_ns = self.start_ns + self.duration_ns
        first = np.searchsorted(times_ns, self.start_ns, side="right")
        count = np.searchsorted(times_ns, end_ns) - first
        piece = np.repeat(np.arange(len(self)), count + 1)
        begins = np.cumsum(count + 1) - (count + 1)
        within = np.arange(len(piece)) - begins[piece]
        inner = within > 0
        start_ns = self.start_ns[piece]
        start_ns[inner] = times_ns[(first[piece] + within - 1)[inner]]
        stop_ns = np.append(start_ns[1:], end_ns[-1:])
        stop_ns[begins[1:] - 1] = end_ns[:-1]
        return replace(self._at(piece), start_ns=start_ns, duration_ns=stop_ns - start_ns)
