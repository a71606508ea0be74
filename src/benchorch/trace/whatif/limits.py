"""Changes of the machine's limits: work at the roofline, faster memory, faster arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.attribution.owners import inherited
from benchorch.trace.attribution.workloads import events_with_rules, workloads
from benchorch.trace.dag import Class
from benchorch.trace.events import DEVICE_WORK, NOTHING
from benchorch.trace.operators.roofline import RooflinePosition
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.hypothesis import Hypothesis
from benchorch.trace.whatif.selector import select
from benchorch.trace.whatif.transforms import OnSelection, Transform

_NO_PEAKS = "what the machine can do is not known: measure its peaks first."
_MOVED = (Class.GPU_COPY, Class.GPU_MEMORY)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline(OnSelection):
    """Chosen work takes what the roofline allows over an efficiency, never longer than observed."""

    efficiency_ratio: float

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """Where no rule or no shapes are known, nothing changes; the note has the share."""
        known = _positions(basis)
        edges = select(basis, self.select).edges
        left = np.ones(len(basis.events) + 1)
        for event, position in known.items():
            left[event] = min(1.0, position.efficiency_ratio / self.efficiency_ratio)
        cause, counted = _causes(basis, known)
        note = _coverage("roofline", hypothesis.weight_ns, edges & counted, edges)
        return hypothesis.scaled(edges & counted, left[cause]).noting(note)

    def problems(self, basis: Basis) -> list[str]:
        """Peaks that are missing, or a selector that finds nothing."""
        missing = [] if basis.peaks else [f"roofline: {_NO_PEAKS}"]
        return missing + OnSelection.problems(self, basis)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth(Transform):
    """Memory is so many times as fast: copies, fills and what its bytes limit."""

    speedup: float

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """Work of which neither side is known keeps its time."""
        moved = basis.labelled(*_MOVED) | _bound_by(basis, "memory")
        return _faster(basis, hypothesis, moved, self.speedup, "bandwidth")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Clock(Transform):
    """Arithmetic is so many times as fast: what its operations limit."""

    speedup: float

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """Work of which neither side is known keeps its time."""
        return _faster(basis, hypothesis, _bound_by(basis, "compute"), self.speedup, "clock")

    def problems(self, basis: Basis) -> list[str]:
        """Peaks that are missing."""
        return [] if basis.peaks else [f"clock: {_NO_PEAKS}"]


def _faster(
    basis: Basis, hypothesis: Hypothesis, edges: NDArray[np.bool_], speedup: float, what: str
) -> Hypothesis:
    note = _coverage(what, hypothesis.weight_ns, edges, basis.work)
    return hypothesis.scaled(edges, 1.0 / speedup).noting(note)


def _bound_by(basis: Basis, side: str) -> NDArray[np.bool_]:
    """The edges of work that a side of the roofline limits."""
    known = _positions(basis)
    limited = np.zeros(len(basis.events) + 1, dtype=np.bool_)
    limited[[event for event, position in known.items() if position.bound == side]] = True
    cause, counted = _causes(basis, known)
    edges: NDArray[np.bool_] = counted & limited[cause] & basis.work
    return edges


def _positions(basis: Basis) -> Mapping[int, RooflinePosition]:
    """Of each operator in the window whose work is known, where it stands; none without peaks."""
    if basis.peaks is None:
        return {}
    in_window = np.zeros(len(basis.events) + 1, dtype=np.bool_)
    in_window[basis.dag.owner] = True
    events = events_with_rules(basis.events, basis.owned, in_window[:-1])
    arguments = basis.events.details.read(events.tolist())
    calls = workloads(basis.events, basis.owned, arguments, basis.peaks)
    return {event: call.position for event, call in calls.items() if call.position}


def _causes(
    basis: Basis, known: Mapping[int, RooflinePosition]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Which known operator each edge works for, (E,), and whether its time is what was judged.

    That is its device work, or all of its own call where it has none.
    """
    mark = np.full(len(basis.events), NOTHING, dtype=np.int64)
    mark[list(known)] = list(known)
    cause = np.append(inherited(basis.owned.parent, mark), NOTHING)
    device = np.append(np.isin(basis.events.category, DEVICE_WORK), False)
    launching = np.zeros(len(cause), dtype=np.bool_)
    launching[cause[device]] = True
    of_edge = cause[basis.dag.owner]
    counted: NDArray[np.bool_] = (of_edge >= 0) & (device[basis.dag.owner] | ~launching[of_edge])
    return of_edge, counted


def _coverage(
    what: str, weight_ns: NDArray[np.float64], found: NDArray[np.bool_], asked: NDArray[np.bool_]
) -> str:
    """Sentence with the share of the requested time that a change applies to."""
    total = float(weight_ns[asked].sum())
    share = float(weight_ns[found & asked].sum()) / total if total else 0.0
    return f"{what}: applies to {share:.0%} of the work; for the rest the limits are not known."
