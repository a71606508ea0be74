"""Dependency graph of a trace: what had to come before what."""

import numpy as np

from benchorch.trace.arrays import Int8s
from benchorch.trace.dag import Dag, Window
from benchorch.trace.events import Events
from benchorch.trace.graph import device_edges, device_order, event_loops
from benchorch.trace.graph import recorded_waits as waits
from benchorch.trace.graph import synchronisation as syncs
from benchorch.trace.graph import thread_edges as threads
from benchorch.trace.graph.assemble import Wiring, assemble, ordered
from benchorch.trace.graph.edge_list import FoundEdges
from benchorch.trace.graph.scope import Scope, Thresholds, scope_of
from benchorch.trace.graph.stream_queues import full_streams, stream_queues
from benchorch.trace.graph.thread_timelines import ThreadTimelines, busy_intervals, thread_timelines
from benchorch.trace.graph.time_classes import labels


def build_dag(
    events: Events,
    window: Window | None = None,
    *,
    thresholds: Thresholds | None = None,
) -> Dag:
    """The dependency graph of a window of a trace, or of all of it.

    Replaying it gives every observed time to the nanosecond. O(n log n) in the events.
    """
    # What it takes to find the edges is gone by the time that they are put in order.
    return ordered(_wiring(scope_of(events, window, thresholds or Thresholds())))


def _wiring(scope: Scope) -> Wiring:
    """The points of a window in order, and all that is known to lie between them."""
    timelines = thread_timelines(scope)
    label = labels(scope)
    found = [*_of_devices(scope, timelines, label), *_of_threads(scope, timelines, label)]
    found.insert(0, threads.thread_edges(scope, timelines, label, found))
    del label
    timelines = timelines.without_segments()
    return assemble(scope, timelines, found)


def _of_devices(scope: Scope, timelines: ThreadTimelines, label: Int8s) -> list[FoundEdges]:
    """Dependencies of devices and of calls to them."""
    records = syncs.sync_records(scope)
    streams = syncs.streams_of(scope, stream_queues(scope), records)
    known, unknown = syncs.delayed_work(scope, streams, records)
    fit = device_edges.fitted(scope, np.concatenate([known, unknown]))
    return [
        device_edges.device_edges(scope, fit, label),
        device_order.cuda_graph_launches(scope, streams.queue, fit),
        device_edges.collectives(scope, timelines),
        device_order.default_stream(scope, streams.queue, fit),
        device_order.copy_engines(scope, fit),
        device_order.host_functions(scope, streams.queue, fit),
        syncs.recorded_stream_waits(scope, streams, fit),
        syncs.unknown_stream_waits(scope, unknown, fit),
        syncs.ordered_by_events(scope, streams.queue, fit),
        syncs.sync_edges(scope, streams, records),
        syncs.polling(scope, streams.queue),
        device_order.staged_copies(scope),
        full_streams(scope, streams.queue),
    ]


def _of_threads(scope: Scope, timelines: ThreadTimelines, label: Int8s) -> list[FoundEdges]:
    """Dependencies between threads; inferred only if nothing else explains a gap."""
    busy = busy_intervals(scope, timelines)
    known = [
        waits.recorded_waits(scope, timelines, label, busy),
        threads.backward_calls(scope, timelines, busy),
        threads.collective_calls(scope, timelines),
        waits.loaded_elsewhere(scope, timelines),
        waits.held_locks(scope, timelines),
        event_loops.timers(scope, timelines),
        event_loops.woken_by_threads(scope, timelines),
        waits.handed_outside(scope, timelines, busy, label),
        waits.polled(scope, timelines, busy),
    ]
    rigid = np.concatenate([one.rigid for one in known])
    explained = np.concatenate(
        [rigid, *(part for one in known for part in (one.waits, one.edges.head))]
    )
    starts = threads.thread_starts(scope, timelines, busy, explained)
    explained = np.append(explained, starts.edges.head)
    woken = threads.inferred_wakeups(scope, timelines, busy, explained, rigid)
    explained = np.append(explained, woken.edges.head)
    recurring = threads.recurring_wakeups(scope, timelines, busy, explained)
    within = threads.within_ranges(scope, timelines, busy)
    return [*known, starts, within, woken, recurring, waits.pool_results(scope)]
