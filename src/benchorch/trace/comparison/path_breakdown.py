"""Breakdown of a critical path by kind of cost and, where it is work, by kind of operator."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.analysed import Analysed
from benchorch.trace.attribution.owners import owners
from benchorch.trace.attribution.workloads import op_type
from benchorch.trace.dag import CLASSES, NOBODY, Class, CriticalPath
from benchorch.trace.events import DEVICE_WORK, NOTHING, Events
from benchorch.trace.operators.operator_kinds import operator_kind
from benchorch.trace.operators.shapes import recorded

COST_OF: Mapping[Class, str] = {
    **dict.fromkeys((Class.CPU_FRAMEWORK, Class.CPU_PYTHON, Class.PROFILER), "framework"),
    **dict.fromkeys((Class.LAUNCH_LATENCY, Class.STREAM_GAP, Class.SYNC_EXIT), "launch"),
    **dict.fromkeys((Class.CPU_RUNTIME, Class.BACKPRESSURE, Class.LOCK), "launch"),
    **dict.fromkeys((Class.GPU_COPY, Class.GPU_COMM), "transfer"),
    Class.DATA_LOADING: "data",
    **dict.fromkeys((Class.UNEXPLAINED, Class.CARRY_IN), "unexplained"),
}
"""Of the classes that are not work."""


_COMPILED = "Torch-Compiled Region"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTime:
    """Time of one kind of operator on a path.

    Attributes:
        time_ns: summed.
        kernels: what did the work: device kernels, or the operators themselves.
        dtype: that most of the time went to, empty where unknown.
    """

    time_ns: int
    kernels: frozenset[str]
    dtype: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSums:
    """A whole path; all times together are the makespan.

    Attributes:
        costs: ns by kind of cost.
        work: by kind of operator.
    """

    costs: Mapping[str, int]
    work: Mapping[str, KindTime]

    @property
    def dtype(self) -> str:
        """That most of the work's time went to."""
        known = [spent for spent in self.work.values() if spent.dtype]
        return max(known, key=lambda spent: spent.time_ns).dtype if known else ""


def path_sums(analysed: Analysed) -> PathSums:
    """The path of an analysis, taken apart."""
    path, events = analysed.path, analysed.events
    costs: Counter[str] = Counter()
    working = np.zeros(len(path), dtype=np.bool_)
    broken = _between_regions(analysed)
    for code, label in enumerate(CLASSES):
        chosen = path.label == code
        name = COST_OF.get(label)
        if name is None:
            working |= chosen
        elif name == "framework":
            costs["graph breaks"] += int(path.duration_ns[chosen & broken].sum())
            costs[name] += int(path.duration_ns[chosen & ~broken].sum())
        else:
            costs[name] += int(path.duration_ns[chosen].sum())
    return PathSums(
        costs={name: time for name, time in costs.items() if time},
        work=_work(events, path, working),
    )


def _work(events: Events, path: CriticalPath, working: NDArray[np.bool_]) -> dict[str, KindTime]:
    """Segments of work by the kind of the operator that they belong to."""
    owner = path.owner[working].astype(np.int64)
    operator = owners(events).operator[owner]
    operator = np.where(owner == NOBODY, NOTHING, np.where(operator == NOTHING, owner, operator))
    arguments = events.details.read(np.unique(operator[operator >= 0]).tolist())
    times: Counter[str] = Counter()
    kernels: dict[str, set[str]] = defaultdict(set)
    dtypes: dict[str, Counter[str]] = defaultdict(Counter)
    durations = path.duration_ns[working].tolist()
    for event, caller, took in zip(owner.tolist(), operator.tolist(), durations, strict=True):
        said = arguments.get(caller, {}) if caller >= 0 else {}
        name = events.names[events.name[caller]] if caller >= 0 else ""
        kind = operator_kind(op_type(name, said)) if name else "between events"
        call = recorded(said)
        times[kind] += took
        dtypes[kind][call.dtype if call else ""] += took
        if caller >= 0:
            kernels[kind].add(_kernel(events, event, op_type(name, said)))
    return {
        kind: KindTime(
            time_ns=took,
            kernels=frozenset(kernels[kind]),
            dtype=dtypes[kind].most_common(1)[0][0],
        )
        for kind, took in times.items()
    }


def _kernel(events: Events, event: int, op: str) -> str:
    """The kernel that ran; on a host nothing but the operator is known of it."""
    on_device = events.category[event] in DEVICE_WORK
    return events.names[events.name[event]] if on_device else op


def _between_regions(analysed: Analysed) -> NDArray[np.bool_]:
    """The segments after the first compiled region of a call, before the last, and in none.

    Without two regions there are none: the graph was not broken.
    """
    events, path, window = analysed.events, analysed.path, analysed.dag.window
    named = np.array([name.startswith(_COMPILED) for name in events.names] or [False])
    regions = np.flatnonzero(named[events.name])
    inside = (events.start_ns[regions] >= window.start_ns) & (
        events.start_ns[regions] <= window.end_ns
    )
    regions = regions[inside]
    if len(regions) < 2:
        return np.zeros(len(path), dtype=np.bool_)
    order = regions[np.argsort(events.start_ns[regions], kind="stable")]
    start, end = events.start_ns[order], np.maximum.accumulate(events.end_ns[order])
    before = np.searchsorted(start, path.start_ns, side="right") - 1
    ended = np.where(before >= 0, path.start_ns >= end[np.maximum(before, 0)], False)
    between: NDArray[np.bool_] = ended & (path.start_ns < start[-1])
    return between
