"""What a host thread did between two of its points: work that takes its time, or waiting?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchorch.trace.builder.classes import gap_labels
from benchorch.trace.builder.edges import edges, found
from benchorch.trace.dag import NOBODY, EdgeKind

if TYPE_CHECKING:
    from numpy import int8, int64
    from numpy.typing import NDArray

    from benchorch.trace.builder.chains import Chains
    from benchorch.trace.builder.edges import Edges, Found
    from benchorch.trace.builder.scope import Scope


def cpu_lanes(
    scope: Scope,
    chains: Chains,
    time_ns: NDArray[int64],
    label: NDArray[int8],
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
    import numpy as np

    floor_ns = np.full(len(time_ns), np.iinfo(np.int64).max)
    for one in others:
        np.minimum.at(floor_ns, one.waits, one.floor_ns)
    elapsed_ns = time_ns[chains.head] - time_ns[chains.tail]
    lane = scope.lane[chains.head >> 1]
    inner = edges(
        chains.tail,
        chains.head,
        kind=EdgeKind.CHAIN,
        weight_ns=np.minimum(elapsed_ns, floor_ns[chains.head]),
        label=np.where(chains.owner == NOBODY, gap_labels(scope)[lane], label[chains.owner]),
        owner=chains.owner,
    )
    return found(inner, _first(scope, chains, time_ns))


def _first(scope: Scope, chains: Chains, time_ns: NDArray[int64]) -> Edges:
    """From the source to the main thread's first point: Python that ran before it."""
    import numpy as np

    first = chains.walk[chains.first]
    first = first[scope.lane[first >> 1] == scope.main_lane]
    return edges(
        np.full(len(first), 2 * len(scope)),
        first,
        kind=EdgeKind.BOUNDARY,
        weight_ns=time_ns[first] - scope.window.start_ns,
        label=gap_labels(scope)[scope.main_lane],
    )
