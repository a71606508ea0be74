"""Edges of collectives: each rank's part ends when the last rank has come and data has moved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import CLASSES, Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING
from benchorch.trace.graph.edge_list import Found, edges, found
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.ranks import meetings

_MOST_RANKS = 16
_CODES = (CLASSES.index(Class.GPU_COMM), CLASSES.index(Class.CPU_COMM))


def collective_parts(
    scope: Scope,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of the collectives in a scope: part (index into the scope), meeting, time of transfer."""
    met = meetings(scope.events)
    place = np.full(len(scope.events) + 1, NOTHING, dtype=np.int64)
    place[scope.event] = np.arange(len(scope))
    part = place[met.event]
    inside = part != NOTHING
    return part[inside], met.meeting[inside], met.transfer_ns[inside]


def collectives(scope: Scope) -> Found:
    """From the start of every rank's part to the end of every other's, and how long data moves."""
    part, meeting, transfer_ns = collective_parts(scope)
    if not len(part):
        return found()
    tails, heads, weights = [], [], []
    order = np.argsort(meeting, kind="stable")
    for same in np.split(order, np.flatnonzero(np.diff(meeting[order])) + 1):
        if 1 < len(same) <= _MOST_RANKS:
            one, other = np.meshgrid(same, same)
            apart = one != other
            tails.append(part[one[apart]])
            heads.append(part[other[apart]])
            weights.append(transfer_ns[other[apart]])
    if not tails:
        return found()
    tail, head = np.concatenate(tails), np.concatenate(heads)
    on_host = head < scope.hosts
    return found(
        edges(
            2 * tail,
            2 * head + 1,
            EdgeKind.SYNC,
            np.where(on_host, _CODES[1], _CODES[0]).astype(np.int8),
            tier=Tier.SEMANTIC,
            weight_ns=np.concatenate(weights),
            owner=head,
        ),
        waits=2 * part[part < scope.hosts] + 1,
        floor_ns=transfer_ns[part < scope.hosts],
    )
