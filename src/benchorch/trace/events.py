"""A trace as columns: every complete event of a profile, whatever tool wrote it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, wraps
from typing import Any, TypeVar

import numpy as np

from benchorch.trace.arrays import Bools, Int8s, Int32s, Int64s

NOTHING = -1  # in every integer column: not in the trace
BETWEEN_TWO = -2  # as a group: a send or receive in a group of more ranks


class Category(IntEnum):
    """Category of an event; every reader maps its own names to these."""

    OPERATOR = 0  # a framework's operator on the host
    ANNOTATION = 1  # a range that a person named: steps, ``mod:*``, ``wait:*``
    PYTHON = 2  # a Python frame
    RUNTIME = 3  # a host call into a device's runtime or driver
    KERNEL = 4  # work of a device ...
    COPY = 5  # ... its copies ...
    FILL = 6  # ... and its fills
    SYNC = 7  # a recorded synchronisation: who waited for which stream or event
    RECORD = 8  # a recorded event of a stream
    OVERHEAD = 9  # the profiler's own time
    NODE = 10  # a node of an ONNX Runtime graph
    SESSION = 11  # a range of an ONNX Runtime session
    OTHER = 12


DEVICE_WORK = (Category.KERNEL, Category.COPY, Category.FILL)

DISPATCHER = re.compile(r"^numpy[/\\](_core|core)[/\\]multiarray\.py\(\d+\): ")
"""NumPy's functions written in C: Python's part of each only says what they are given."""
COLLECTIVE = re.compile(
    r"^(nccl|rccl|oneccl|xccl|gloo|mpi|c10d)\b|^(nccl|rccl|gloo|c10d)[:_]|^ncclDev"
    r"|\b[nr]ccl\w*Kernel|\bmscclKernel|cross_device_reduce|\bdeep_ep::int(ra|er)node|\buserbuffers_"
    r"|((?<![a-z])all_|all)(reduce|gather|to_?all)|reduce_?scatter"
    r"|c10d::(broadcast|barrier|send|recv)",
    re.I,
)
"""Names of collectives, on devices and on hosts."""
_FUSED = re.compile(r"(triton|cpp)_\w*fused_")  # compilers name kernels after what they feed, too
GRAPH_LAUNCH = re.compile(r"GraphLaunch")
"""Calls that launch a graph of device work."""


def is_collective(work: str) -> bool:
    """Whether a device carries out a collective in work of this name."""
    return COLLECTIVE.search(work) is not None and not _FUSED.match(work)


def among(column: Int8s, categories: Sequence[int]) -> Bools:
    """Mask of the rows whose category is one of the given."""
    table = _table(tuple(categories))  # five times as fast as an index
    return np.frombuffer(column.tobytes().translate(table), dtype=np.bool_)


@cache
def _table(categories: tuple[int, ...]) -> bytes:
    return bytes(code in categories for code in range(256))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Timeline of events: a host thread or a stream of a device."""

    process: str  # and thread: as the trace spells them; of a stream, its device and its number
    thread: str
    device: int = NOTHING  # and stream: numbers of a device's stream; NOTHING for a host thread
    stream: int = NOTHING
    label: str = ""  # what a person calls it
    rank: int = 0  # of the traces of several ranks, which one it is in
    program: str = ""  # of a trace of several processes with device work, which one it is of
    offset: int = 0  # of `device`, which is unique, from the number that the trace has

    @property
    def on_device(self) -> bool:
        """Whether it is a stream."""
        return self.stream != NOTHING

    @property
    def number(self) -> int:
        """The device's number in the trace."""
        return self.device - self.offset


Details = Callable[[Sequence[int]], Mapping[int, Mapping[str, object]]]
"""Further arguments of events by index, read again from the file; empty for those without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """All complete events of one trace, in the order of the file; arrays have shape ``(n,)``."""

    # start_ns, duration_ns: integer nanoseconds on the trace's own clock, durations >= 0
    start_ns: Int64s
    duration_ns: Int64s
    name: Int32s  # index into `names`
    lane: Int32s  # index into `lanes`
    category: Int8s  # a `Category`
    correlation: Int64s  # joins a host call with what it started on a device
    external_id: Int64s  # joins a host call or device event with its operator
    sequence: Int64s  # joins an operator of the forward pass with those of its backward pass
    forward_lane: Int32s  # lane of that forward operator
    # of device work, of a synchronisation the stream it is about, and of a host call that records
    # an event the stream it does so on, where a wait for it names one
    stream: Int32s
    awaited: Int64s  # of a SYNC, the correlation of the event record that it waits for
    graph_node: Int64s  # of device work in a launched graph, its node there
    group: Int64s  # of a collective on a device, a number for the ranks that take part
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    details: Details = field(default=lambda indices: {index: {} for index in indices})
    # what had to be mended while reading, each with how often
    repairs: Mapping[str, int] = field(default_factory=dict)
    # by device, (m, 2) times in ns and the bytes that are allocated from then on
    allocated: Mapping[str, Int64s] = field(default_factory=dict)
    rank: int = NOTHING  # that the file names for the program it is of
    pytorch: bool = True  # whether PyTorch's profiler wrote it, which has options of its own
    # results cached by whatever computed them; a changed copy begins anew
    known: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)

    @property
    def devices(self) -> Int64s:
        """Device number of every lane, NOTHING for a host thread; at least one entry."""
        return np.array([lane.device for lane in self.lanes] or [NOTHING], dtype=np.int64)

    @property
    def ranks(self) -> Int64s:
        """Rank of every lane; at least one entry."""
        return np.array([lane.rank for lane in self.lanes] or [0], dtype=np.int64)

    @property
    def programs(self) -> Int64s:
        """The process of every lane, numbered; at least one entry. One trace is mostly of one."""
        keys = [(lane.rank, lane.program) for lane in self.lanes] or [(0, "")]
        numbers = {key: number for number, key in enumerate(sorted(set(keys)))}
        return np.array([numbers[key] for key in keys], dtype=np.int64)

    def called(self, fits: Callable[[str], object]) -> Bools:
        """Which have a name that fits, (n,); every name is tried once."""
        return np.array([bool(fits(name)) for name in self.names] or [False])[self.name]

    @property
    def works(self) -> Bools:
        """Which are work of a device, (n,); not to be written to."""
        return among(self.category, DEVICE_WORK)

    @property
    def end_ns(self) -> Int64s:
        """End time of each event."""
        return self.start_ns + self.duration_ns


T = TypeVar("T")


def once(work: Callable[[Events], T]) -> Callable[[Events], T]:
    """Cache the result of a function with the trace that it is of."""

    @wraps(work)
    def cached(events: Events) -> T:
        if work.__qualname__ not in events.known:
            events.known[work.__qualname__] = work(events)
        result: T = events.known[work.__qualname__]
        return result

    return cached
