"""Change of work to the times of another trial."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.attribution.tables import op_type
from benchorch.trace.events import DEVICE_WORK, NOTHING, Category
from benchorch.trace.operators.shapes import recorded
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.hypothesis import Hypothesis
from benchorch.trace.whatif.patterns import suggest
from benchorch.trace.whatif.selector import select
from benchorch.trace.whatif.transforms import OnSelection

_SIDES = 3  # a thread's own work, calls into the runtime, and a device's work
Key: TypeAlias = tuple[str, ...]
Times: TypeAlias = tuple[float, ...]  # by side


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Swap(OnSelection):
    """Chosen operators take as long as the same ones in another trial, at the median.

    The same is: the same node of the operator graph or, where that is not known in both, the same
    operator in the same module on the same shapes and dtype. Time of threads, of calls into the
    runtime and of the device is swapped each for itself. What the other trial lacks stays.
    """

    trial: str

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """The note has the share of the chosen work that was found there."""
        asked = select(basis, self.select).edges
        unit, side = _units(basis)
        ours = _times(basis, unit, side, hypothesis.weight_ns)
        theirs = _medians(basis.others[self.trial])
        ratio = np.ones((len(basis.events) + 1, _SIDES))
        matched = np.zeros(len(basis.events) + 1, dtype=np.bool_)
        for event, keys in _keys(basis, unit).items():
            times = next((theirs[key] for key in keys if key in theirs), None)
            if times is not None:
                matched[event] = True
                own = ours[event]
                ratio[event] = [
                    new / old if old else 1.0 for new, old in zip(times, own, strict=True)
                ]
        edges = asked & matched[unit]
        total, found = (float(hypothesis.weight_ns[mask].sum()) for mask in (asked, edges))
        share = found / total if total else 0.0
        note = f"swap: {share:.0%} of the chosen work was found in {self.trial}; the rest stays."
        return hypothesis.scaled(edges, ratio[unit, side]).noting(note)

    def problems(self, basis: Basis) -> list[str]:
        """A trial that is missing, or a selector that finds nothing."""
        known = ", ".join(basis.others) or "none"
        missing = f"swap: no trial {self.trial!r} was given; there is {known}."
        missing += suggest(self.trial, basis.others)
        return [
            *([] if self.trial in basis.others else [missing]),
            *OnSelection.problems(self, basis),
        ]


def _units(basis: Basis) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The operator each edge works for, NOTHING for none, and on which side, (E,)."""
    nodes = basis.nodes
    of_event = np.where(nodes.part >= 0, nodes.instance, basis.owned.operator)
    unit = np.append(of_event, NOTHING)[basis.dag.owner]
    category = basis.events.category
    side = np.where(category == Category.RUNTIME, 1, 0)
    side[np.isin(category, DEVICE_WORK)] = 2
    work = basis.work
    return np.where(work, unit, NOTHING), np.append(side, 0)[basis.dag.owner]


def _times(
    basis: Basis, unit: NDArray[np.int64], side: NDArray[np.int64], weight_ns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of each event what is done for it by side, (n + 1, sides)."""
    size, known = len(basis.events) + 1, unit >= 0
    place = _SIDES * unit[known] + side[known]
    sums = np.bincount(place, weights=weight_ns[known], minlength=_SIDES * size)
    return sums.astype(np.float64).reshape(size, _SIDES)


def _medians(basis: Basis) -> Mapping[Key, Times]:
    """By what is the same, over all that are."""
    unit, side = _units(basis)
    times = _times(basis, unit, side, basis.dag.weight_ns.astype(np.float64))
    found: dict[Key, list[Times]] = defaultdict(list)
    for event, keys in _keys(basis, unit).items():
        for key in keys:
            found[key].append(tuple(times[event].tolist()))
    return {
        key: tuple(map(statistics.median, zip(*listed, strict=True)))
        for key, listed in found.items()
    }


def _keys(basis: Basis, unit: NDArray[np.int64]) -> Mapping[int, tuple[Key, ...]]:
    """By operator that does something in the window, what makes another one the same as it."""
    events = basis.events
    operators = np.unique(unit[unit >= 0]).tolist()
    said = events.details.read(operators)
    nodes = basis.nodes
    found: dict[int, tuple[Key, ...]] = {}
    for event in operators:
        arguments = said.get(event, {})
        call = recorded(arguments)
        module = basis.modules[basis.module[event]] if basis.module[event] >= 0 else ""
        op = op_type(events.names[events.name[event]], arguments)
        tensors = (call.shapes, call.dtype) if call else ("", "")
        part = int(nodes.part[event])
        names = tuple(nodes.names[row] for row in nodes.shares[part]) if part >= 0 else ()
        same = ("operator", module, op, *tensors)
        found[event] = (("node", *names), same) if names else (same,)
    return found
