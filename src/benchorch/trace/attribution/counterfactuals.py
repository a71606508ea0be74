"""Makespan saved without each kind of cost: the counterfactuals that a verdict rests on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.attribution.gains import Cut, Gains
from benchorch.trace.dag import CLASSES, Class, Dag, EdgeKind
from benchorch.trace.events import Lane

HOST = (
    *(Class.CPU_COMPUTE, Class.CPU_FRAMEWORK, Class.CPU_RUNTIME, Class.CPU_PYTHON),
    *(Class.DATA_LOADING, Class.BACKPRESSURE, Class.LOCK, Class.PROFILER),
)
DEVICE = (Class.GPU_COMPUTE, Class.GPU_MEMORY, Class.GPU_COPY, Class.GPU_COMM)
GROUPS: Mapping[str, tuple[Class, ...]] = {
    "host": HOST,
    "device": DEVICE,
    "compute": (Class.CPU_COMPUTE,),
    "overhead": (Class.CPU_FRAMEWORK, Class.CPU_RUNTIME, Class.CPU_PYTHON, Class.PROFILER),
    "python": (Class.CPU_PYTHON,),
    "framework": (Class.CPU_FRAMEWORK, Class.CPU_RUNTIME),
    "data": (Class.DATA_LOADING,),
    "copies": (Class.GPU_COPY,),
    "communication": (Class.GPU_COMM,),
}
"""Costs by name; ``launch`` and ``sync`` are computed apart."""

WAITS = (EdgeKind.SYNC, EdgeKind.WAIT, EdgeKind.JOIN)


def counterfactuals(
    gains: Gains, lanes: Collection[Lane], launch_floor_ns: float | None = None
) -> dict[str, int]:
    """Nanoseconds saved without each kind of cost that the window has.

    ``launch``: every launch takes no longer than the floor, and kernels follow each other at
    once; the floor is the machine's or else the shortest launch of the trace. ``sync``: no host
    thread waits for a device or for another thread.
    """
    dag = gains.dag
    cuts: dict[str, Cut] = {}
    for name, classes in GROUPS.items():
        chosen = np.flatnonzero(of_classes(dag, classes))
        if len(chosen):
            cuts[name] = Cut(edges=chosen, ns=dag.weight_ns[chosen])
    if of_classes(dag, (Class.LAUNCH_LATENCY, Class.STREAM_GAP)).any():
        cuts["launch"] = Cut.of(_launch_excess(dag, launch_floor_ns))
    found = dict(zip(cuts, gains.saved_each(list(cuts.values())), strict=True))
    waits = _host_waits(dag, lanes)
    if waits.any():
        found["sync"] = gains.saved_by_not_waiting(waits)
    return found


def of_classes(dag: Dag, classes: Collection[Class]) -> NDArray[np.bool_]:
    """The edges whose weight is spent on one of these, (E,)."""
    wanted = np.array([one in classes for one in CLASSES], dtype=np.bool_)
    chosen: NDArray[np.bool_] = wanted[dag.label] & (dag.weight_ns > 0)
    return chosen


def _launch_excess(dag: Dag, floor_ns: float | None) -> NDArray[np.int64]:
    """What each launch takes beyond the floor, and each gap on a stream, (E,) in ns."""
    launches = of_classes(dag, (Class.LAUNCH_LATENCY,))
    gaps = of_classes(dag, (Class.STREAM_GAP,))
    if floor_ns is None:
        floor_ns = float(dag.weight_ns[launches].min()) if launches.any() else 0.0
    excess = np.maximum(dag.weight_ns - int(floor_ns), 0)
    return np.where(launches, excess, np.where(gaps, dag.weight_ns, 0))


def _host_waits(dag: Dag, lanes: Collection[Lane]) -> NDArray[np.bool_]:
    """Dependencies by which a host thread waits for another lane, (E,)."""
    on_device = np.array([*(lane.on_device for lane in lanes), True])  # lane -1: source and sink
    waits: NDArray[np.bool_] = np.isin(dag.kind, WAITS) & ~on_device[dag.lane[dag.head]]
    return waits
