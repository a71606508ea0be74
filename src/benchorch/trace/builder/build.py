"""From a trace's events to the graph of what had to come before what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchorch.trace.builder.assemble import assemble, times
from benchorch.trace.builder.chains import chains
from benchorch.trace.builder.classes import labels
from benchorch.trace.builder.cpu_lanes import cpu_lanes
from benchorch.trace.builder.device_lanes import device_lanes, fitted
from benchorch.trace.builder.queues import queues
from benchorch.trace.builder.scope import scope as scope_of
from benchorch.trace.builder.syncs import notes, stream_waits, syncs
from benchorch.trace.builder.thresholds import Thresholds

if TYPE_CHECKING:
    from benchorch.trace.builder.edges import Found
    from benchorch.trace.dag import Dag, Window
    from benchorch.trace.events import Events
    from benchorch.trace.operator_graph import OperatorGraph


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
    scope = scope_of(events, window)
    chain = chains(scope)
    time_ns = times(scope)
    label = labels(scope)
    fit, queue, note = fitted(scope), queues(scope), notes(scope)
    found: list[Found] = [
        device_lanes(scope, fit, label),
        syncs(scope, queue, note),
        stream_waits(scope, queue, note, fit),
    ]
    found = [cpu_lanes(scope, chain, time_ns, label, found), *found]
    return assemble(scope, chain, time_ns, found)
