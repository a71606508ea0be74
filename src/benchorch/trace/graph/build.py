"""Dependency graph of a trace: what had to come before what."""

import numpy as np

from benchorch.trace.arrays import Int8s
from benchorch.trace.dag import Dag, Window
from benchorch.trace.events import Events
from benchorch.trace.graph.assemble import Wiring, assemble, ordered
from benchorch.trace.graph.data_edges import data_edges
from benchorch.trace.graph.device_edges import collectives, device_edges, fitted
from benchorch.trace.graph.device_order import (
    copy_engines,
    cuda_graph_launches,
    default_stream,
    host_functions,
    staged_copies,
)
from benchorch.trace.graph.edge_list import Found
from benchorch.trace.graph.launch_blocking import full_streams
from benchorch.trace.graph.recorded_waits import (
    handed_outside,
    held_locks,
    loaded_elsewhere,
    polled,
    recorded_waits,
    timers,
)
from benchorch.trace.graph.scope import scope_of
from benchorch.trace.graph.scope_values import Scope, Thresholds
from benchorch.trace.graph.stream_queues import stream_queues
from benchorch.trace.graph.synchronisation import (
    delayed_work,
    ordered_by_events,
    polling,
    recorded_stream_waits,
    streams_of,
    sync_edges,
    sync_records,
    unknown_stream_waits,
)
from benchorch.trace.graph.thread_edges import (
    backward_after_forward,
    backward_calls,
    collective_calls,
    inferred_wakeups,
    recurring_wakeups,
    thread_edges,
    thread_starts,
    within_ranges,
)
from benchorch.trace.graph.thread_timelines import ThreadTimelines, busy_intervals, thread_timelines
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
    """
    # What it takes to find the edges is gone by the time that they are put in order.
    return ordered(_wiring(scope_of(events, window, thresholds or Thresholds()), graph))


def _wiring(scope: Scope, graph: OperatorGraph | None) -> Wiring:
    """The points of a window in order, and all that is known to lie between them."""
    timelines = thread_timelines(scope)
    label = labels(scope)
    found = [*_of_devices(scope, timelines, label), *_of_threads(scope, timelines, label, graph)]
    found.insert(0, thread_edges(scope, timelines, label, found))
    del label
    timelines = timelines.without_segments()
    return assemble(scope, timelines, found)


def _of_devices(scope: Scope, timelines: ThreadTimelines, label: Int8s) -> list[Found]:
    """Dependencies of devices and of calls to them."""
    records = sync_records(scope)
    streams = streams_of(scope, stream_queues(scope), records)
    known, unknown = delayed_work(scope, streams, records)
    fit = fitted(scope, np.concatenate([known, unknown]))
    return [
        device_edges(scope, fit, label),
        cuda_graph_launches(scope, streams.queue, fit),
        collectives(scope, timelines),
        default_stream(scope, streams.queue, fit),
        copy_engines(scope, fit),
        host_functions(scope, streams.queue, fit),
        recorded_stream_waits(scope, streams, fit),
        unknown_stream_waits(scope, unknown, fit),
        ordered_by_events(scope, streams.queue, fit),
        sync_edges(scope, streams, records),
        polling(scope, streams.queue),
        staged_copies(scope),
        full_streams(scope, streams.queue),
    ]


def _of_threads(
    scope: Scope, timelines: ThreadTimelines, label: Int8s, graph: OperatorGraph | None
) -> list[Found]:
    """Dependencies between threads; inferred only if nothing else explains a gap."""
    busy = busy_intervals(scope, timelines)
    known = [
        recorded_waits(scope, timelines, label, busy),
        backward_after_forward(scope),
        backward_calls(scope, timelines, busy),
        collective_calls(scope, timelines),
        loaded_elsewhere(scope, timelines),
        held_locks(scope, timelines),
        timers(scope, timelines),
        handed_outside(scope, timelines, busy, label),
        polled(scope, timelines, busy),
        data_edges(scope, timelines, graph),
    ]
    rigid = np.concatenate([one.rigid for one in known])
    explained = np.concatenate(
        [rigid, *(part for one in known for part in (one.waits, one.edges.head))]
    )
    starts = thread_starts(scope, timelines, busy, explained)
    explained = np.append(explained, starts.edges.head)
    woken = inferred_wakeups(scope, timelines, busy, explained, rigid)
    return [
        *known,
        starts,
        within_ranges(scope, timelines, busy),
        woken,
        recurring_wakeups(scope, timelines, busy, np.append(explained, woken.edges.head)),
    ]
