"""Chains of callers of every event, computed level by level."""

from __future__ import annotations

import numpy as np
from numpy import bool_, int64
from numpy.typing import NDArray

from benchorch.trace.distinct import distinct
from benchorch.trace.events import NOTHING

DEEPEST = 400
"""Levels that are followed; a launch that seems to lie in what it launched has no end."""

Chain = tuple[int, int]
"""The number of the chain that another one continues, and what it adds."""


def call_chains(
    parent: NDArray[int64], own: NDArray[int64], fresh: NDArray[bool_] | None = None
) -> tuple[NDArray[int64], list[Chain]]:
    """The chain of values above and of each event, (n,), and all chains that there are.

    Chain 0 is empty; every other one is the chain it continues and the value it adds.

    Args:
        parent: (n,) of each event, or NOTHING.
        own: (n,) what each event adds, >= 0, or NOTHING.
        fresh: (n,) events at which a new chain begins.
    """
    depth = _depths(parent)
    levels = np.split(np.argsort(depth, kind="stable"), np.cumsum(np.bincount(depth))[:-1])
    span = int(own.max(initial=0)) + 1
    chains: list[Chain] = [(0, NOTHING)]
    chain = np.zeros(len(parent), dtype=np.int64)
    for level, here in enumerate(levels):
        if level:
            chain[here] = chain[parent[here]]
        if fresh is not None:
            chain[here[fresh[here]]] = 0
        adding = here[own[here] != NOTHING]
        callers = distinct(chain[adding])
        found = distinct(callers.place * span + own[adding])
        chain[adding] = len(chains) + found.place
        caller, added = np.divmod(found.values, span)
        chains += zip(callers.values[caller].tolist(), added.tolist(), strict=True)
    return chain, chains


def _depths(parent: NDArray[int64]) -> NDArray[int64]:
    """How many ancestors each has, (n,), up to the deepest level."""
    depth = np.zeros(len(parent), dtype=np.int64)
    (open_,) = np.nonzero(parent != NOTHING)
    above = parent[open_]
    while len(open_) and depth.max() < DEEPEST:
        depth[open_] += 1
        above = parent[above]
        open_, above = open_[above != NOTHING], above[above != NOTHING]
    return depth
