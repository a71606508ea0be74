"""Checks and look-ups for dependency graphs of tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.critical_path.path import critical_path
from benchorch.trace.critical_path.replay import steps
from benchorch.trace.dag import CLASSES, Dag, EdgeKind
from support.graph_invariants import check


def replay(
    dag: Dag,
    weight_ns: NDArray[np.int64] | None = None,
    residual_ns: NDArray[np.int64] | None = None,
    dropped: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """The time of every point, one after another: what any faster way has to give."""
    step_ns = steps(dag, weight_ns, residual_ns, dropped)
    time_ns = [int(dag.time_ns[0])] * dag.points
    for tail, head, step in zip(
        dag.tail.tolist(), dag.head.tolist(), step_ns.tolist(), strict=True
    ):
        earliest = time_ns[tail] + step
        if earliest > time_ns[head]:
            time_ns[head] = earliest
    return np.array(time_ns, dtype=np.int64)


def assert_sound(dag: Dag) -> None:
    """All invariants hold, and nothing but the source is without a reason."""
    assert (np.diff(dag.time_ns) >= 0).all()
    assert replay(dag).tolist() == dag.time_ns.tolist()
    assert set(dag.head.tolist()) == set(range(1, dag.points))
    whole_ns = int(dag.time_ns[0]), int(dag.time_ns[-1])
    broken = [name for name, holds in check(dag, critical_path(dag), whole_ns).items() if not holds]
    assert not broken


def point(dag: Dag, event: int, *, end: bool) -> int:
    """The point at which an event starts or ends."""
    (found,) = np.flatnonzero((dag.event == event) & (dag.is_end == end))
    return int(found)


def between(dag: Dag, tail: int, head: int) -> list[tuple[EdgeKind, int]]:
    """Kind and weight of each edge from one point to another."""
    these = np.flatnonzero((dag.tail == tail) & (dag.head == head))
    return [(EdgeKind(int(dag.kind[at])), int(dag.weight_ns[at])) for at in these]


def into(dag: Dag, head: int, kind: EdgeKind) -> list[tuple[int, bool, int]]:
    """Event, whether its end, and weight of each edge of one kind into a point."""
    these = np.flatnonzero((dag.head == head) & (dag.kind == kind))
    tails = dag.tail[these]
    return [
        (int(dag.event[tail]), bool(dag.is_end[tail]), int(dag.weight_ns[at]))
        for at, tail in zip(these, tails, strict=True)
    ]


def spent(dag: Dag) -> dict[str, int]:
    """Time of the critical path by class."""
    path = critical_path(dag)
    return {
        CLASSES[label].value: int(path.duration_ns[path.label == label].sum())
        for label in np.unique(path.label)
    }


def owners(dag: Dag) -> list[tuple[int, int]]:
    """Owner and duration of each segment of the critical path, in order."""
    path = critical_path(dag)
    return list(zip(path.owner.tolist(), path.duration_ns.tolist(), strict=True))
