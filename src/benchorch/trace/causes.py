"""Causes of time for people, and how well each piece of the critical path is known."""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import NamedTuple

import numpy as np

from benchorch.trace.arrays import Bools, Int8s
from benchorch.trace.dag import CLASSES, NOBODY, Class, CriticalPath, Tier
from benchorch.trace.events import Category, Events
from benchorch.trace.ranks import meetings


class Cause(StrEnum):
    """Cause of time, in people's terms."""

    DEVICE_COMPUTE = "device compute"
    DEVICE_MEMORY = "device memory"
    COMMUNICATION = "communication"
    STRAGGLER = "waiting for a straggler"
    DATA_LOADING = "data loading"
    FRAMEWORK = "host framework"
    PYTHON = "python"
    INPUT_OUTPUT = "input/output"
    SLEEP = "sleep and lock"
    OUTSIDE = "outside"
    PROFILER = "profiler"
    UNKNOWN = "unknown"


CAUSES = tuple(Cause)


class Known(IntEnum):
    """How well the length of a piece, or its cause, is known."""

    RECORDED = 0
    INFERRED = 1
    UNKNOWN = 2


CAUSE_OF: Mapping[Class, Cause] = {
    **dict.fromkeys((Class.GPU_COMPUTE, Class.GRAPH_GAP, Class.STREAM_GAP), Cause.DEVICE_COMPUTE),
    Class.CPU_COMPUTE: Cause.DEVICE_COMPUTE,
    Class.GPU_COPY: Cause.DEVICE_MEMORY,
    **dict.fromkeys((Class.GPU_COMM, Class.CPU_COMM), Cause.COMMUNICATION),
    **dict.fromkeys((Class.LAUNCH_LATENCY, Class.SYNC_EXIT, Class.CPU_FRAMEWORK), Cause.FRAMEWORK),
    **dict.fromkeys((Class.CPU_RUNTIME, Class.BACKPRESSURE), Cause.FRAMEWORK),
    Class.CPU_PYTHON: Cause.PYTHON,
    Class.DATA_LOADING: Cause.DATA_LOADING,
    Class.INPUT_OUTPUT: Cause.INPUT_OUTPUT,
    **dict.fromkeys((Class.SLEEP, Class.LOCK), Cause.SLEEP),
    **dict.fromkeys((Class.OUTSIDE, Class.NATIVE, Class.HOST_FUNCTION), Cause.OUTSIDE),
    Class.PROFILER: Cause.PROFILER,
    **dict.fromkeys((Class.CPU_GAP, Class.CARRY_IN, Class.UNEXPLAINED), Cause.UNKNOWN),
}
"""The cause of each class of time, as far as the class alone decides it."""

CAUSE_CODES = np.array([CAUSES.index(CAUSE_OF[one]) for one in CLASSES], dtype=np.int8)


class Reasons(NamedTuple):
    """Cause of each of S path segments, with the evidence for length and cause."""

    cause: Int8s
    length: Int8s
    certainty: Int8s

    def shares(self, path: CriticalPath, chosen: Bools | None = None) -> dict[Cause, float]:
        """Share of each cause in the path, or in some of its segments, the largest first."""
        spent_ns = path.duration_ns if chosen is None else np.where(chosen, path.duration_ns, 0)
        sums = np.bincount(self.cause, spent_ns, len(CAUSES)) / max(int(spent_ns.sum()), 1)
        order = np.argsort(-sums, kind="stable").tolist()
        return {CAUSES[code]: float(sums[code]) for code in order if sums[code] > 0}


def reasons(events: Events, path: CriticalPath) -> Reasons:
    """Cause of each of a path's segments, and the evidence for it and for the length.

    That a thread stood still for 20 ms may be recorded; why is another question.
    """
    cause = CAUSE_CODES[path.label]
    length = np.where(path.tier == Tier.INFERRED, Known.INFERRED, Known.RECORDED).astype(np.int8)
    length[path.residual] = Known.UNKNOWN
    unowned = path.owner == NOBODY
    annotation = events.category[path.owner] == Category.ANNOTATION
    between = np.isin(path.label, [*map(CLASSES.index, (Class.CPU_PYTHON, Class.CPU_FRAMEWORK))])
    certainty = np.full(len(path), Known.RECORDED, dtype=np.int8)
    certainty[between & (unowned | annotation)] = Known.INFERRED
    certainty[path.tier == Tier.INFERRED] = Known.INFERRED
    late = _stragglers(events, path)
    cause[late] = CAUSES.index(Cause.STRAGGLER)
    certainty[cause == CAUSES.index(Cause.UNKNOWN)] = Known.UNKNOWN
    return Reasons(cause=cause, length=length, certainty=certainty)


def _stragglers(events: Events, path: CriticalPath) -> Bools:
    """Segments in which all ranks but the last one have come to a collective of the path."""
    collectives = meetings(events)
    if not len(collectives.event):
        return np.zeros(len(path), dtype=np.bool_)
    on_path = np.isin(collectives.event, np.unique(path.owner))
    begin_ns, end_ns = collectives.usual_ns[on_path], collectives.last_ns[on_path]
    order = np.argsort(begin_ns)
    begin_ns, end_ns = begin_ns[order], np.maximum.accumulate(end_ns[order])
    middle_ns = path.start_ns + path.duration_ns // 2
    at = np.searchsorted(begin_ns, middle_ns, side="right") - 1
    late: Bools = (at >= 0) & (middle_ns < np.append(end_ns, 0)[at])
    return late
