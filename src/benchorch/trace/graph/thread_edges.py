"""Edges along each host thread: work that takes its time, or waiting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import NOBODY, Class, EdgeKind
from benchorch.trace.graph.edge_list import Found, edges, found
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines
from benchorch.trace.graph.time_classes import segment_labels


def thread_edges(
    scope: Scope, timelines: ThreadTimelines, label: NDArray[np.int8], others: Sequence[Found]
) -> Found:
    """Each thread's own order: all that passed is weight, unless something else was waited for.

    From the source to the main thread's first point Python ran.

    Parameters
    ----------
    label : int8 array, shape (n,)
        The class of every event's own time.
    others : sequence of Found
        Where threads waited.
    """
    owner, weight_ns = timelines.owner, timelines.elapsed_ns
    segment = np.full(2 * len(scope), NOBODY, dtype=np.int32)
    segment[timelines.head] = np.arange(len(timelines.head), dtype=np.int32)
    for one in others:
        at = segment[one.waits]
        known = at != NOBODY  # nothing comes before a thread's first point
        np.minimum.at(weight_ns, at[known], one.floor_ns[known])
    labels = segment_labels(scope, owner, timelines.lane, timelines.elapsed_ns, label)
    kept = ~np.isin(timelines.head, np.concatenate([one.cuts for one in others]))
    first = timelines.walk[timelines.first]
    first = first[scope.lane[first >> 1] == scope.main_lane]
    return found(
        edges(
            timelines.tail[kept],
            timelines.head[kept],
            EdgeKind.CHAIN,
            labels[kept],
            weight_ns=weight_ns[kept],
            owner=owner[kept],
        ),
        edges(
            np.full(len(first), 2 * len(scope)),
            first,
            EdgeKind.BOUNDARY,
            Class.CARRY_IN,
            weight_ns=scope.start_ns[first >> 1] - scope.window.start_ns,
        ),
    )
