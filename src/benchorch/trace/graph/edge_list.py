"""Dependencies between points that have no order yet, while a graph is put together.

Event i of a scope starts at point 2i and ends at point 2i + 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchorch.trace.arrays import Bools, Int8s, Int32s, Int64s
from benchorch.trace.dag import CLASSES, NOBODY, Class, EdgeKind, Tier


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """Columns of shape ``(n,)``; owners are indices into the scope.

    A weight may be longer than what passed between the points: then all of that is meant.
    """

    tail: Int32s
    head: Int32s
    weight_ns: Int64s
    kind: Int8s
    tier: Int8s
    label: Int8s
    owner: Int32s

    def __len__(self) -> int:
        """How many there are."""
        return len(self.tail)

    def kept(self, which: Bools | Int64s) -> Edges:
        """Some of them, by mask or by index."""
        if which.dtype == bool and which.all():
            return self
        return Edges(**{one.name: getattr(self, one.name)[which] for one in fields(self)})


@final
class FoundEdges:
    """Dependencies of one sort, and the waits of host threads that they explain."""

    def __init__(
        self,
        *several: Edges,
        waits: ArrayLike = (),
        floor_ns: ArrayLike = 0,
        cuts: ArrayLike = (),
        rigid: ArrayLike = (),
        facts: Mapping[str, float] | None = None,
        repairs: Mapping[str, int] | None = None,
    ) -> None:
        self.edges = joined(several)
        # Points of host threads; what passed on the thread before them was waiting ...
        self.waits = np.asarray(waits, dtype=np.int64)
        # ... except for this much; one floor holds for all.
        self.floor_ns = np.broadcast_to(np.asarray(floor_ns, dtype=np.int64), self.waits.shape)
        # Points of host threads that do not come after what is before them on the thread.
        self.cuts = np.asarray(cuts, dtype=np.int64)
        # Points of host threads before which there was no waiting, whatever it looks like.
        self.rigid = np.asarray(rigid, dtype=np.int64)
        self.facts, self.repairs = facts or {}, repairs or {}  # for the graph's own


def edges(
    tail: ArrayLike,
    head: ArrayLike,
    kind: EdgeKind,
    label: Class | Int8s,
    tier: Tier | Int8s = Tier.RECORDED,
    weight_ns: ArrayLike = 0,
    owner: ArrayLike = NOBODY,
) -> Edges:
    """Columns from arrays of points; what is given once holds for all."""
    tails = np.atleast_1d(np.asarray(tail, dtype=np.int32))

    def column(values: ArrayLike, dtype: type) -> NDArray[Any]:
        return np.broadcast_to(np.asarray(values, dtype=dtype), tails.shape)

    return Edges(
        tail=tails,
        head=column(head, np.int32),
        weight_ns=column(weight_ns, np.int64),
        kind=column(int(kind), np.int8),
        tier=column(tier, np.int8),
        label=column(CLASSES.index(label) if isinstance(label, Class) else label, np.int8),
        owner=column(owner, np.int32),
    )


def joined(several: Iterable[Edges]) -> Edges:
    """All of them, in the order given."""
    nothing = edges([], [], EdgeKind.BOUNDARY, Class.UNEXPLAINED)
    parts = [one for one in several if len(one)] or [nothing]
    names = [one.name for one in fields(Edges)]
    return Edges(**{one: np.concatenate([getattr(part, one) for part in parts]) for one in names})
