"""Traces by hand: a line for each event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from benchorch.trace.events import NOTHING, Category, Events, Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One event; of device work the lane is ``stream <number>``."""

    name: str
    lane: str
    start_ns: int
    end_ns: int
    category: Category = Category.OPERATOR
    correlation: int = NOTHING
    sequence: int = NOTHING
    forward_lane: str = ""
    stream: int = NOTHING
    awaited: int = NOTHING
    graph_node: int = NOTHING
    group: int = NOTHING


def op(name: str, start_ns: int, end_ns: int, *, lane: str = "main", **rest: object) -> Made:
    return Made(name=name, lane=lane, start_ns=start_ns, end_ns=end_ns, **rest)


def call(name: str, start_ns: int, end_ns: int, *, lane: str = "main", **rest: object) -> Made:
    return op(name, start_ns, end_ns, lane=lane, category=Category.RUNTIME, **rest)


def note(name: str, start_ns: int, end_ns: int, *, lane: str = "main", **rest: object) -> Made:
    return op(name, start_ns, end_ns, lane=lane, category=Category.ANNOTATION, **rest)


def kernel(
    name: str,
    start_ns: int,
    end_ns: int,
    correlation: int = NOTHING,
    *,
    stream: int = 7,
    category: Category = Category.KERNEL,
    graph_node: int = NOTHING,
    group: int = NOTHING,
) -> Made:
    return Made(
        name=name,
        lane=f"stream {stream}",
        start_ns=start_ns,
        end_ns=end_ns,
        category=category,
        correlation=correlation,
        stream=stream,
        graph_node=graph_node,
        group=group,
    )


def sync(name: str, at: Made, *, stream: int = NOTHING, awaited: int = NOTHING) -> Made:
    """What the profiler records beside a synchronising call."""
    return Made(
        name=name,
        lane="syncs",
        start_ns=at.start_ns,
        end_ns=at.end_ns,
        category=Category.SYNC,
        correlation=at.correlation,
        stream=stream,
        awaited=awaited,
    )


def trace(*made: Made | Iterable[Made]) -> Events:
    """Events in the order given; the first lane named is the first lane."""
    rows = [one for part in made for one in ([part] if isinstance(part, Made) else part)]
    lanes = list(dict.fromkeys(at for row in rows for at in (row.lane, row.forward_lane) if at))
    names = list(dict.fromkeys(row.name for row in rows))

    def column(field: str, dtype: type = np.int64) -> np.ndarray:
        return np.array([getattr(row, field) for row in rows], dtype=dtype)

    return Events(
        start_ns=column("start_ns"),
        duration_ns=column("end_ns") - column("start_ns"),
        name=np.array([names.index(row.name) for row in rows], dtype=np.int32),
        lane=np.array([lanes.index(row.lane) for row in rows], dtype=np.int32),
        category=column("category", np.int8),
        correlation=column("correlation"),
        external_id=np.full(len(rows), NOTHING),
        sequence=column("sequence"),
        forward_lane=np.array(
            [lanes.index(row.forward_lane) if row.forward_lane else NOTHING for row in rows],
            dtype=np.int32,
        ),
        stream=column("stream", np.int32),
        awaited=column("awaited"),
        graph_node=column("graph_node"),
        group=column("group"),
        names=tuple(names),
        lanes=tuple(_lane(name) for name in lanes),
    )


def _lane(name: str) -> Lane:
    if name.startswith("stream "):
        return Lane(process="0", thread=name, device=0, stream=int(name.split()[1]), label=name)
    return Lane(process="1", thread=name.removesuffix(" profiler"), label=name)
