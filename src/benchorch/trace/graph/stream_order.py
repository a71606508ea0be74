"""Device work that cannot start before other device work has ended, on whichever streams."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import Class, EdgeKind, Tier
from benchorch.trace.graph.device_edges import Fitted
from benchorch.trace.graph.edge_list import Edges, edges
from benchorch.trace.graph.scope_values import Scope


def stream_edges(
    work: NDArray[np.int64], then: NDArray[np.int64], tier: Tier, fit: Fitted, scope: Scope
) -> Edges:
    """From the end of each piece of work to the start of another; pairs of shape ``(n,)``."""
    return edges(
        2 * work + 1,
        2 * then,
        kind=EdgeKind.SYNC,
        tier=tier,
        weight_ns=fit.gap_ns[then - scope.hosts],
        label=Class.STREAM_GAP,
    )
