"""What a host thread did between two of its points: work that takes its time, or waiting?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import NOBODY, EdgeKind
from benchorch.trace.graph.edge_list import Edges, Found, edges, found
from benchorch.trace.graph.point_lookup import SegmentIndex
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines
from benchorch.trace.graph.time_classes import gap_labels


def cpu_lanes(
    scope: Scope,
    chains: ThreadTimelines,
    table: SegmentIndex,
    label: NDArray[np.int8],
    others: Sequence[Found],
) -> Found:
    """Each thread's own order: all that passed is weight, unless something else was waited for.

    Parameters
    ----------
    label : int8 array, shape (n,)
        The class of every event's own time.
    others : sequence of Found
        What says where threads waited.
    """
    weight_ns = table.elapsed_ns
    stretch = np.full(2 * len(scope), NOBODY, dtype=np.int32)
    stretch[chains.head] = np.arange(len(chains.head), dtype=np.int32)
    for one in others:
        at = stretch[one.waits]
        known = at != NOBODY  # nothing comes before a thread's first point
        np.minimum.at(weight_ns, at[known], one.floor_ns[known])
    inner = edges(
        chains.tail,
        chains.head,
        kind=EdgeKind.CHAIN,
        weight_ns=weight_ns,
        label=np.where(chains.owner == NOBODY, gap_labels(scope)[table.lane], label[chains.owner]),
        owner=chains.owner,
    )
    return found(inner, _first(scope, chains))


def _first(scope: Scope, chains: ThreadTimelines) -> Edges:
    """From the source to the main thread's first point: Python that ran before it."""
    first = chains.walk[chains.first]
    first = first[scope.lane[first >> 1] == scope.main_lane]
    return edges(
        np.full(len(first), 2 * len(scope)),
        first,
        kind=EdgeKind.BOUNDARY,
        weight_ns=scope.start_ns[first >> 1] - scope.window.start_ns,
        label=gap_labels(scope)[scope.main_lane],
    )
