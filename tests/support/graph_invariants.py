"""Invariants of every analysis; where one does not hold, the fault is benchorch's."""

from collections.abc import Mapping

import numpy as np

from benchorch.trace.dag import CLASSES, CriticalPath, Dag, Tier


def check(dag: Dag, path: CriticalPath, shown_ns: tuple[int, int]) -> Mapping[str, bool]:
    """I1 to I5, each whether it holds; all are integer equalities or orders, without tolerance."""
    return {
        "I1 replay gives the observed times": _replays(dag),
        "I2 the path is as long as the makespan": path.length_ns == shown_ns[1] - shown_ns[0],
        "I3 the path's stretches tile the window": _tiles(path, shown_ns),
        "I4 classes and tiers sum to the makespan": _sums(path),
        "I5 no edge is longer than what was observed": _fits(dag),
    }


def _replays(dag: Dag) -> bool:
    """Whether every point comes when the edges into it allow; by induction replay gives that time.

    The induction needs that tails come before heads, and that all but the source have an edge.
    """
    if not bool((dag.tail < dag.head).all() and (np.diff(dag.head) >= 0).all()):
        return False
    latest = np.full(dag.points, np.iinfo(np.int64).min)
    np.maximum.at(latest, dag.head, dag.time_ns[dag.tail] + dag.weight_ns)
    held = latest[1:] > np.iinfo(np.int64).min
    return bool(held.all() and (latest[1:] + dag.residual_ns[1:] == dag.time_ns[1:]).all())


def _tiles(path: CriticalPath, shown_ns: tuple[int, int]) -> bool:
    """Whether the segments follow each other without gap or overlap, from begin to end."""
    if not len(path):
        return shown_ns[0] == shown_ns[1]
    end_ns = path.start_ns + path.duration_ns
    return bool(
        path.start_ns[0] == shown_ns[0]
        and end_ns[-1] == shown_ns[1]
        and (end_ns[:-1] == path.start_ns[1:]).all()
        and (path.duration_ns > 0).all()
    )


def _sums(path: CriticalPath) -> bool:
    """Whether every segment has a class and a tier, and their times sum to the path."""
    return all(
        sum(int(path.duration_ns[column == value].sum()) for value in range(kinds))
        == path.length_ns
        for column, kinds in ((path.label, len(CLASSES)), (path.tier, len(Tier)))
    )


def _fits(dag: Dag) -> bool:
    elapsed = dag.time_ns[dag.head] - dag.time_ns[dag.tail]
    within = (dag.weight_ns >= 0) & (dag.weight_ns <= elapsed)
    return bool(within.all() and (dag.residual_ns >= 0).all())
