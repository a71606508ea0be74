"""Batches that other processes load: they are ready when they are, whatever the trace's own do."""

import re

import numpy as np

from benchorch.trace.dag import Class, EdgeKind, Tier
from benchorch.trace.events import Category
from benchorch.trace.graph.edge_list import Found, edges, found
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines

_CALL = re.compile(r"_MultiProcessingDataLoaderIter\.__next__")
_AWAITS = re.compile(r"of select\.|acquire of |of _queue\.")


def loaded_elsewhere(scope: Scope, timelines: ThreadTimelines) -> Found:
    """When each batch that was waited for was ready, counted from the beginning.

    Worker processes do not stand still while a program waits for them, so they need the same time
    for a batch whatever becomes faster there. They wait for the program only if it is the slower
    one, and then it does not wait for them.
    """
    call = scope.named(_CALL, Category.ANNOTATION, Category.OTHER)
    if not len(call):
        return found()
    call = call[np.argsort(call)]
    waits = np.zeros(len(scope) + 1, dtype=np.bool_)  # the last one is NOBODY's
    waits[scope.named(_AWAITS, Category.PYTHON)] = True
    if not waits.any():
        waits[call] = True
    within = np.searchsorted(call, timelines.owner, side="right") - 1
    inside = waits[timelines.owner] & (within >= 0) & (timelines.owner < scope.after[call[within]])
    inside &= timelines.elapsed_ns > scope.thresholds.idle_ns
    segment = np.flatnonzero(inside)
    segment = segment[np.lexsort((-timelines.elapsed_ns[segment], within[segment]))]
    segment = segment[np.diff(within[segment], prepend=-1) != 0]  # the longest of each call
    head = timelines.head[segment]
    return found(
        edges(
            np.full(len(head), 2 * len(scope)),
            head,
            EdgeKind.WAIT,
            Class.DATA_LOADING,
            tier=Tier.SEMANTIC,
            weight_ns=timelines.time_ns[head] - scope.window.start_ns,
            owner=call[within[segment]],
        ),
        waits=head,
    )
