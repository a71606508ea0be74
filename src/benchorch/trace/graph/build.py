"""From a trace's events to the graph of what had to come before what."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import Dag, Window
from benchorch.trace.events import Events
from benchorch.trace.graph.assemble import Wiring, assemble, ordered, times
from benchorch.trace.graph.busy_intervals import bursts
from benchorch.trace.graph.cuda_graph_launches import graph_launches
from benchorch.trace.graph.data_edges import data_edges
from benchorch.trace.graph.device_edges import device_lanes, fitted
from benchorch.trace.graph.edge_list import Found
from benchorch.trace.graph.launch_blocking import full_streams, locks
from benchorch.trace.graph.point_lookup import SegmentIndex, timetable
from benchorch.trace.graph.recorded_waits import waits
from benchorch.trace.graph.scope import scope as scope_of
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.stream_queues import queues
from benchorch.trace.graph.sync_records import notes
from benchorch.trace.graph.synchronisation import held, stream_waits, streams, syncs, unknown_waits
from benchorch.trace.graph.thread_edges import cpu_lanes
from benchorch.trace.graph.thread_timelines import ThreadTimelines, chains
from benchorch.trace.graph.thread_wakeups import (
    backward_after_forward,
    backward_bursts,
    inferred,
    regions,
    started,
)
from benchorch.trace.graph.thresholds import Thresholds
from benchorch.trace.graph.time_classes import labels
from benchorch.trace.operators.graph import OperatorGraph


def build_dag(
    events: Events,
    window: Window | None = None,
    graph: OperatorGraph | None = None,
    *,
    thresholds: Thresholds | None = None,
) -> Dag:
    """The dependency graph of a window of a trace, or of all of it.

    Replaying it gives every observed time to the nanosecond, whatever the trace: what nothing
    explains is a point's residual. O(n log n) in the number of events.

    Parameters
    ----------
    window : Window, optional
        Of the ranges in the trace; without it everything but threads that do no work.
    graph : OperatorGraph, optional
        Of the model, for the data that its nodes hand to each other.
    thresholds : Thresholds, optional
        What inference needs; they scale with the trace's clock.
    """
    # What it takes to find the edges is gone by the time that they are put in order.
    return ordered(_wiring(events, window, graph, thresholds or Thresholds()))


def _wiring(
    events: Events, window: Window | None, graph: OperatorGraph | None, thresholds: Thresholds
) -> Wiring:
    """The points of a window in order, and all that is known to lie between them."""
    scope = scope_of(events, window)
    chain = chains(scope)
    time_ns = times(scope)
    table = timetable(scope, chain, time_ns)
    label = labels(scope)
    found = [
        *_devices(scope, label, thresholds),
        *_threads(scope, chain, time_ns, table, label, graph, thresholds),
    ]
    return assemble(scope, chain, time_ns, [cpu_lanes(scope, chain, table, label, found), *found])


def _devices(scope: Scope, label: NDArray[np.int8], thresholds: Thresholds) -> list[Found]:
    """What devices and the calls to them depend on."""
    note = notes(scope)
    queued = streams(scope, queues(scope), note)
    known, unknown = held(scope, queued, note)
    fit = fitted(scope, np.concatenate([known, unknown]))
    waited = [syncs(scope, queued, note), full_streams(scope, queued.queue, thresholds)]
    return [
        device_lanes(scope, fit, label),
        graph_launches(scope, queued.queue, fit),
        stream_waits(scope, queued, fit),
        unknown_waits(scope, unknown, fit, thresholds),
        *waited,
        locks(scope, np.concatenate([one.waits for one in waited]), thresholds),
    ]


def _threads(
    scope: Scope,
    chain: ThreadTimelines,
    time_ns: NDArray[np.int64],
    table: SegmentIndex,
    label: NDArray[np.int8],
    graph: OperatorGraph | None,
    thresholds: Thresholds,
) -> list[Found]:
    """What threads depend on each other for; inferred only where nothing else explains a gap."""
    burst = bursts(scope, chain, table, thresholds)
    known = [
        waits(scope, chain, time_ns, label, burst, table, thresholds),
        backward_after_forward(scope),
        backward_bursts(scope, chain, time_ns, burst, table),
        data_edges(scope, chain, time_ns, graph),
    ]
    explained = np.concatenate([part for one in known for part in (one.waits, one.edges.head)])
    forks = started(scope, chain, time_ns, burst, table, explained, thresholds)
    explained = np.append(explained, forks.edges.head)
    return [
        *known,
        forks,
        regions(scope, chain, time_ns, burst, table),
        inferred(scope, chain, time_ns, burst, explained, thresholds),
    ]
