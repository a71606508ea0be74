"""The critical path by segments: start, duration, lane, event and module of each."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy import bool_, int64
from numpy.typing import NDArray

from benchorch.trace.analysed import Analysed
from benchorch.trace.critical_path.drag import drag
from benchorch.trace.dag import CLASSES, NOBODY, Tier
from benchorch.trace.distinct import distinct
from benchorch.trace.report.ancestry import NO_OWNER, Ancestry
from benchorch.trace.report.context import SCHEMA_VERSION

MOST_SEGMENTS = 60_000
"""Of a file: on a longer path, short neighbours are merged."""

SHORT = "several short pieces"
"""The name of merged ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSegments:
    """The path as columns of length S that tile the window, and their names.

    Attributes:
        start_ns, duration_ns, owner, label, tier, residual: as on the path. Of several short
            pieces: their sum, NOBODY, and the class and tier of the longest of them.
        lane: of the owner, else of the point that the segment leads to.
        drag_ns: by how much the makespan shrinks without it alone; 0 of a residual and of several.
        name, module: places in `names` and `modules`, of which the last is empty.
        pieces: how many of the path's own segments it is.
    """

    start_ns: NDArray[int64]
    duration_ns: NDArray[int64]
    owner: NDArray[int64]
    label: NDArray[int64]
    tier: NDArray[int64]
    residual: NDArray[bool_]
    lane: NDArray[int64]
    drag_ns: NDArray[int64]
    name: NDArray[int64]
    module: NDArray[int64]
    pieces: NDArray[int64]
    names: tuple[str, ...]
    modules: tuple[str, ...]


def path_segments(analysis: Analysed, above: Ancestry, most: int = MOST_SEGMENTS) -> PathSegments:
    """The segments of a path; on a long one, short neighbours are merged."""
    events, dag, path = analysis.events, analysis.dag, analysis.path
    owner = path.owner.astype(np.int64)
    owned = owner != NOBODY
    lane = dag.lane[dag.head[path.edge]].astype(np.int64)
    lane[owned] = events.lane[owner[owned]]
    module = distinct(np.append(above.module, -1)[owner])
    whole = PathSegments(
        start_ns=path.start_ns,
        duration_ns=path.duration_ns,
        owner=owner,
        label=path.label.astype(np.int64),
        tier=path.tier.astype(np.int64),
        residual=path.residual,
        lane=lane,
        drag_ns=np.where(path.residual, 0, drag(dag)[path.edge]),
        name=np.append(events.name.astype(np.int64), len(events.names))[owner],
        module=module.place,
        pieces=np.ones(len(path), dtype=np.int64),
        names=(*events.names, NO_OWNER, SHORT),
        modules=(*(above.module_name(int(code)) for code in module.values), ""),
    )
    return _merged(whole, most) if len(path) > most else whole


def _merged(whole: PathSegments, most: int) -> PathSegments:
    """About `most` segments at most: all but the longest half of that count as short."""
    length_ns = whole.duration_ns
    shortest_ns = np.partition(length_ns, -(most // 2))[-(most // 2)]
    long = length_ns > shortest_ns
    begins = long | np.append(True, long[:-1])
    first = np.flatnonzero(begins)
    run = np.cumsum(begins) - 1
    pieces = np.bincount(run)
    most_ns = np.maximum.reduceat(length_ns, first)
    candidates = np.flatnonzero(length_ns == most_ns[run])
    longest = np.empty_like(first)
    longest[run[candidates]] = candidates  # of equals the last
    columns = (entry.name for entry in fields(whole) if entry.name not in {"names", "modules"})
    picked = replace(whole, **{name: getattr(whole, name)[longest] for name in columns})
    several = pieces > 1
    return replace(
        picked,
        start_ns=whole.start_ns[first],
        duration_ns=np.add.reduceat(length_ns, first),
        owner=np.where(several, NOBODY, picked.owner),
        drag_ns=np.where(several, 0, picked.drag_ns),
        residual=picked.residual & ~several,
        name=np.where(several, len(whole.names) - 1, picked.name),
        module=np.where(several, len(whole.modules) - 1, picked.module),
        pieces=pieces,
    )


def path_columns(analysis: Analysed, along: PathSegments) -> dict[str, object]:
    """The path as columns of equal length; names are indices into tables."""
    name = distinct(along.name)
    return {
        "schema_version": SCHEMA_VERSION,
        "makespan_ns": analysis.dag.makespan_ns,
        "lanes": [lane_label(analysis, index) for index in range(len(analysis.events.lanes))],
        "classes": [label.value for label in CLASSES],
        "tiers": [tier.name.lower() for tier in Tier],
        "names": [along.names[code] for code in name.values],
        "modules": list(along.modules),
        "segments": {
            "start_ns": along.start_ns.tolist(),
            "duration_ns": along.duration_ns.tolist(),
            "class": along.label.tolist(),
            "tier": along.tier.tolist(),
            "residual": along.residual.tolist(),
            "event": along.owner.tolist(),
            "lane": along.lane.tolist(),
            "name": name.place.tolist(),
            "module": along.module.tolist(),
            "drag_ns": along.drag_ns.tolist(),
            "pieces": along.pieces.tolist(),
        },
    }


def lane_label(analysis: Analysed, lane: int) -> str:
    """A lane's name for people; that of a point on none is the window's."""
    if not 0 <= lane < len(analysis.events.lanes):
        return "window"
    found = analysis.events.lanes[lane]
    return found.label or f"{found.process} / {found.thread}"
