"""Which edges of a graph follow each other with nothing between that meets or parts?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy import bool_, int32, int64
from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeChains:
    """The junctions of a graph, and the chains of its edges between them, as `Contracted` says."""

    junctions: NDArray[int64]
    tail: NDArray[int32]
    head: NDArray[int32]
    pieces: NDArray[int64]
    first: NDArray[int64]
    last: NDArray[int64]


def chains_of(
    tail: NDArray[int32], head: NDArray[int32], points: int, kept: NDArray[bool_] | None
) -> EdgeChains:
    """Of a graph's edges, or some of them, those taken together between which nothing meets."""
    edges = None if kept is None else np.flatnonzero(kept)
    if edges is not None:
        tail, head = tail[edges], head[edges]
    inward = np.bincount(head, minlength=points)
    outward = np.bincount(tail, minlength=points)
    inner = (inward == 1) & (outward == 1)
    junction = ~inner & (inward + outward > 0)
    junction[[0, -1]] = True
    number = np.cumsum(junction) - 1
    begin = _first_edges(tail, head, inner)
    (ends,) = np.nonzero(junction[head])
    chain = np.empty(len(tail), dtype=np.int32)
    chain[begin[ends]] = np.arange(len(ends), dtype=np.int32)
    chain = chain[begin]
    order = np.argsort(chain, kind="stable")
    return EdgeChains(
        junctions=np.flatnonzero(junction),
        tail=number[tail[begin[ends]]].astype(np.int32),
        head=number[head[ends]].astype(np.int32),
        pieces=order if edges is None else edges[order],
        first=np.flatnonzero(np.diff(chain[order], prepend=-1)),
        last=ends if edges is None else edges[ends],
    )


def _first_edges(
    tail: NDArray[int32], head: NDArray[int32], inner: NDArray[bool_]
) -> NDArray[int32]:
    """The edge that the chain of each begins with, (E,), by doubling how far one looks back."""
    own = np.arange(len(tail), dtype=np.int32)
    into = np.zeros(len(inner), dtype=np.int32)
    into[head] = own
    first = np.where(inner[tail], into[tail], own)
    while True:
        earlier = first[first]
        if np.array_equal(earlier, first):
            return first
        first = earlier
