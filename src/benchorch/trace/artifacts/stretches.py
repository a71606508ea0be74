"""The critical path stretch by stretch: when, how long, on what, whose, and under which module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchorch.trace.artifacts.ancestry import Ancestry
from benchorch.trace.artifacts.icicle import Piece
from benchorch.trace.artifacts.subject import SCHEMA_VERSION, Analysed
from benchorch.trace.dag import CLASSES, NOBODY, CriticalPath, Tier
from benchorch.trace.drag import drag

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

NO_OWNER = "between events"
"""What a stretch is called that belongs to no event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretches:
    """What the path itself does not say of its S stretches.

    Attributes:
        lane: (S,) the lane of its owner, else of the point it leads to.
        drag_ns: (S,) by how much the makespan shrinks without it alone; 0 of a residual.
        name, module, stack: of each owner by its index.
    """

    lane: NDArray[int64]
    drag_ns: NDArray[int64]
    name: dict[int, str]
    module: dict[int, str]
    stack: Mapping[int, tuple[str, ...]]


def stretches(analysis: Analysed, ancestry: Ancestry) -> Stretches:
    """One look at each owner on the path."""
    import numpy as np

    events, dag, path = analysis.events, analysis.dag, analysis.path
    owned = path.owner != NOBODY
    lane = dag.lane[dag.head[path.edge]].astype(np.int64)
    lane[owned] = events.lane[path.owner[owned]]
    owners = [int(owner) for owner in np.unique(path.owner[owned])]
    return Stretches(
        lane=lane,
        drag_ns=np.where(path.residual, 0, drag(dag)[path.edge]),
        name={NOBODY: NO_OWNER} | {o: events.names[int(events.name[o])] for o in owners},
        module={NOBODY: ""} | {owner: ancestry.module(owner) for owner in owners},
        stack=stacks(path, ancestry),
    )


def path_columns(analysis: Analysed, along: Stretches) -> dict[str, object]:
    """The path as columns of equal length; names stand in tables and are meant by index."""
    path = analysis.path
    owners = path.owner.tolist()
    names, name = _coded([along.name[owner] for owner in owners])
    modules, module = _coded([along.module[owner] for owner in owners])
    return {
        "schema_version": SCHEMA_VERSION,
        "makespan_ns": analysis.dag.makespan_ns,
        "lanes": [lane_label(analysis, index) for index in range(len(analysis.events.lanes))],
        "classes": [label.value for label in CLASSES],
        "tiers": [tier.name.lower() for tier in Tier],
        "names": names,
        "modules": modules,
        "segments": {
            "start_ns": path.start_ns.tolist(),
            "duration_ns": path.duration_ns.tolist(),
            "class": path.label.tolist(),
            "tier": path.tier.tolist(),
            "residual": path.residual.tolist(),
            "event": owners,
            "lane": along.lane.tolist(),
            "name": name,
            "module": module,
            "drag_ns": along.drag_ns.tolist(),
        },
    }


def pieces(path: CriticalPath, stack: Mapping[int, tuple[str, ...]]) -> Iterator[Piece]:
    """Each stretch as a piece of an icicle, by its owner's stack."""
    stretches = (path.owner.tolist(), path.duration_ns.tolist(), path.label.tolist())
    for owner, spent_ns, label in zip(*stretches, strict=True):
        yield stack[owner], spent_ns, label


def stacks(path: CriticalPath, ancestry: Ancestry) -> dict[int, tuple[str, ...]]:
    """What each owner on a path is under, from the outside in, and itself."""
    owners = set(path.owner.tolist()) - {NOBODY}
    return {NOBODY: (NO_OWNER,)} | {owner: ancestry.stack(owner) for owner in owners}


def lane_label(analysis: Analysed, lane: int) -> str:
    """What a person calls a lane; of a point on none, the window's."""
    if not 0 <= lane < len(analysis.events.lanes):
        return "window"
    found = analysis.events.lanes[lane]
    return found.label or f"{found.process} / {found.thread}"


def _coded(texts: Sequence[str]) -> tuple[list[str], list[int]]:
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return list(places), [places[text] for text in texts]
