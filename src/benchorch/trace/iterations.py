"""Iterations of a trace: the typical one, and how much they differ."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchorch.domain.estimate import Estimate
from benchorch.stats.mean_of_processes import mean
from benchorch.trace.dag import NOBODY, CriticalPath, Dag, Window
from benchorch.trace.events import Events

MOST_COMPARED = 20
"""Iterations that are compared with each other, evenly spaced: 190 pairs."""

_MOST_EVENTS = 3_000_000
"""Events that are read for it, all together; large traces have fewer iterations compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Iterations:
    """All windows of one marking range.

    Attributes:
        makespans_ns: of each, in order.
        mean: of them with a 95 % interval, in ns; without one for a single window.
        stability_ratio: how alike the paths are, 0 to 1; None for a single window.
    """

    makespans_ns: tuple[int, ...]
    mean: Estimate | None
    stability_ratio: float | None


def typical(windows: Sequence[Window]) -> Window:
    """The window whose length is closest to the median of all, the first of equals.

    Raises:
        ValueError: there is no window.
    """
    lengths = [window.end_ns - window.start_ns for window in windows]
    middle = statistics.median(lengths) if lengths else 0
    return min(windows, key=lambda window: abs(window.end_ns - window.start_ns - middle))


def iterations(
    events: Events,
    windows: Sequence[Window],
    analysed: Callable[[Window], tuple[Dag, CriticalPath]],
) -> Iterations:
    """Makespans and stability of all windows.

    Stability is the mean over pairs of iterations of the Jaccard overlap of the names of what is
    on their paths. Of many iterations only some have their path compared; the others count with
    their length.

    Args:
        events: of the trace.
        windows: of one marking range, at least one.
        analysed: builds the graph and the path of a window.

    Source:
        Jaccard, *The distribution of the flora in the alpine zone*, 1912.
    """
    most = max(2, min(MOST_COMPARED, _MOST_EVENTS // max(len(events), 1)))
    chosen = _spaced(len(windows), most)
    makespans_ns = [window.end_ns - window.start_ns for window in windows]
    names = []
    for index in chosen:
        dag, path = analysed(windows[index])
        makespans_ns[index] = dag.makespan_ns
        names.append(critical_names(events, path))
    return Iterations(
        makespans_ns=tuple(makespans_ns),
        mean=mean([float(one) for one in makespans_ns], of="iterations", unit="ns"),
        stability_ratio=stability(names),
    )


def critical_names(events: Events, path: CriticalPath) -> frozenset[str]:
    """Names of the events that own time on a path."""
    owned = path.owner != NOBODY
    codes = np.unique(events.name[path.owner[owned]])
    return frozenset(events.names[code] for code in codes.tolist())


def stability(names: Sequence[Collection[str]]) -> float | None:
    """The mean Jaccard overlap of all pairs; None for fewer than two, 1 where all are empty."""
    sets = [frozenset(one) for one in names]
    overlaps = [
        len(one & other) / len(one | other) if one | other else 1.0
        for one, other in combinations(sets, 2)
    ]
    return statistics.fmean(overlaps) if overlaps else None


def _spaced(count: int, most: int) -> list[int]:
    """Up to so many indices, at least two, from the first to the last."""
    if count <= most:
        return list(range(count))
    return [round(place * (count - 1) / (most - 1)) for place in range(most)]
