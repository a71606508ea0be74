"""Dependencies between points that have no order yet, while a graph is put together.

Event i of a scope starts at point 2i and ends at point 2i + 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchorch.trace.dag import CLASSES, NOBODY, Class, EdgeKind, Tier


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """Columns of shape ``(n,)``; owners are indices into the scope.

    A weight may be longer than what passed between the points: then all of that is meant.
    """

    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    weight_ns: NDArray[np.int64]
    kind: NDArray[np.int8]
    tier: NDArray[np.int8]
    label: NDArray[np.int8]
    owner: NDArray[np.int32]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.tail)

    def kept(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Edges:
        """Some of them, by mask or by index."""
        if which.dtype == bool and which.all():
            return self
        return Edges(**{one.name: getattr(self, one.name)[which] for one in fields(self)})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Dependencies of one sort, and the waits of host threads that they explain.

    Attributes:
        edges: the dependencies.
        waits: points of host threads; what passed on the thread before them was waiting ...
        floor_ns: ... except for this much.
        cuts: points of host threads that do not come after what is before them on the thread.
        rigid: points of host threads before which there was no waiting, whatever it looks like.
        facts, repairs: for the graph's own.
    """

    edges: Edges
    waits: NDArray[np.int64]
    floor_ns: NDArray[np.int64]
    cuts: NDArray[np.int64]
    rigid: NDArray[np.int64]
    facts: Mapping[str, float] = field(default_factory=dict)
    repairs: Mapping[str, int] = field(default_factory=dict)


def edges(
    tail: ArrayLike,
    head: ArrayLike,
    kind: EdgeKind,
    label: Class | NDArray[np.int8],
    *,
    tier: Tier | NDArray[np.int8] = Tier.RECORDED,
    weight_ns: ArrayLike = 0,
    owner: ArrayLike = NOBODY,
) -> Edges:
    """Columns from arrays of points; what is given once holds for all."""
    tails = np.atleast_1d(np.asarray(tail, dtype=np.int32))

    def column(values: ArrayLike, dtype: type) -> NDArray[Any]:
        return np.broadcast_to(np.asarray(values, dtype=dtype), tails.shape)

    labels = CLASSES.index(label) if isinstance(label, Class) else label
    return Edges(
        tail=tails,
        head=column(head, np.int32),
        weight_ns=column(weight_ns, np.int64),
        kind=column(int(kind), np.int8),
        tier=column(tier, np.int8),
        label=column(labels, np.int8),
        owner=column(owner, np.int32),
    )


def found(
    *several: Edges,
    waits: ArrayLike = (),
    floor_ns: ArrayLike = 0,
    cuts: ArrayLike = (),
    rigid: ArrayLike = (),
    facts: Mapping[str, float] | None = None,
    repairs: Mapping[str, int] | None = None,
) -> Found:
    """Dependencies, and what else is given; one floor holds for all waits."""
    points = np.asarray(waits, dtype=np.int64)
    floors = np.broadcast_to(np.asarray(floor_ns, dtype=np.int64), points.shape)
    return Found(
        edges=joined(several),
        waits=points,
        floor_ns=floors,
        cuts=np.asarray(cuts, dtype=np.int64),
        rigid=np.asarray(rigid, dtype=np.int64),
        facts=facts or {},
        repairs=repairs or {},
    )


def joined(several: Iterable[Edges]) -> Edges:
    """All of them, in the order given."""
    nothing = edges([], [], EdgeKind.BOUNDARY, Class.UNEXPLAINED)
    parts = [one for one in several if len(one)] or [nothing]
    return Edges(
        **{
            one.name: np.concatenate([getattr(part, one.name) for part in parts])
            for one in fields(Edges)
        }
    )
