"""Predicted duration of a changed program, by the dependency graph alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.analysis import analyze
from benchorch.trace.dag import NOBODY, Dag, Window
from benchorch.trace.events import Events
from benchorch.trace.graph.build import build_dag
from benchorch.trace.nesting import nest
from benchorch.trace.readers.open import read_events
from benchorch.trace.steps import find_steps
from benchorch.trace.whatif.basis import Selector
from benchorch.trace.whatif.predict import predict
from benchorch.trace.whatif.transforms import Change
from support.analyzed_traces import call_window
from support.graph_checks import replay


def factors_by_event(
    events: Events, factors: Mapping[str, float], *, children: bool = True
) -> NDArray[np.float64]:
    """By how much the own time of every event is multiplied; shape (n,), mostly ones.

    With `children` an event without a factor of its own has that of the range around it.
    """
    own = np.array([factors.get(name, np.nan) for name in events.names])[events.name]
    if children:
        parent = nest(events).parent
        for _ in range(200):
            inherited = np.where(parent >= 0, own[parent], np.nan)
            missing = np.isnan(own) & ~np.isnan(inherited)
            if not missing.any():
                break
            own[missing] = inherited[missing]
    return np.where(np.isnan(own), 1.0, own)


def predicted_ns(
    events: Events, dag: Dag, factors: Mapping[str, float], *, children: bool = True
) -> int:
    """The makespan if the work of events of some names took so many times as long."""
    by_event = factors_by_event(events, factors, children=children)
    factor = np.where(dag.owner != NOBODY, by_event[dag.owner], 1.0)
    weight_ns = np.rint(dag.weight_ns * factor).astype(np.int64)
    times_ns = replay(dag, weight_ns)
    return int(times_ns[-1] - times_ns[0])


def asked_ns(events: Events, factors: Mapping[str, float], *, alone: bool) -> int:
    """The same as a user would request it: a what-if of speedups by name."""
    changes = [
        Change(
            effect="speedup",
            select=Selector(name=name, alone=alone),
            value=1 / factor if factor else math.inf,
        )
        for name, factor in factors.items()
    ]
    return predict(analyze(events), changes).predicted_ns


def predicted_ratio(trace: Path, factors: Mapping[str, float]) -> float:
    """The makespan of the changed program over that of the fastest iteration of a trace."""
    events = read_events(trace)
    dag = build_dag(events, _fastest(events))
    return predicted_ns(events, dag, factors) / dag.makespan_ns


def _fastest(events: Events) -> Window:
    steps = find_steps(events)
    return call_window(events, int(np.argmin(steps.done_ns - steps.start_ns)))


def observed_ns(trace: Path) -> int:
    """The makespan of the fastest iteration of a trace."""
    window = _fastest(read_events(trace))
    return window.end_ns - window.start_ns
