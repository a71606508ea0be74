"""Which events fit one condition of a selector, and whose time is within one of its limits?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy import bool_, int32
from numpy.typing import NDArray

from benchorch.trace.attribution.workloads import op_type
from benchorch.trace.events import DEVICE_WORK, NOTHING, Category
from benchorch.trace.operators.shapes import recorded
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.patterns import flags, matcher
from benchorch.trace.whatif.selector_values import Selector
from benchorch.trace.windows import windows

_OPTIMIZER = "/^Optimizer\\.(step|zero_grad)/"


def fitting_all(basis: Basis, selector: Selector) -> NDArray[bool_] | None:
    """The events that fit all conditions, (n,); None where there is none."""
    conditions = list(_conditions(basis, selector))
    chosen = np.logical_and.reduce(conditions) if conditions else None
    if selector.dtype or selector.shape:
        looked_at = np.ones(len(basis.events), dtype=np.bool_) if chosen is None else chosen
        chosen = looked_at & _of_tensors(basis, selector, looked_at)
    return chosen


def _conditions(basis: Basis, selector: Selector) -> Iterator[NDArray[bool_]]:
    """Of each condition that is given the events that fit, (n,)."""
    events = basis.events
    if selector.name:
        yield flags(events.names, selector.name)[events.name]
    if selector.op:
        yield _of_operator(basis, selector.op)
    if selector.kernel:
        work = np.isin(events.category, DEVICE_WORK)
        yield work & flags(events.names, selector.kernel)[events.name]
    if selector.module:
        yield _in_module(basis, selector.module)
    if selector.graph_node:
        yield _of_node(basis, selector.graph_node)


def time_limits(basis: Basis, selector: Selector) -> Iterator[NDArray[bool_]]:
    """Of each limit on time that is given the events whose own time is within it, (n,)."""
    if selector.lane:
        yield _on_lane(basis, selector.lane)[basis.events.lane]
    if selector.phase:
        yield _in_phase(basis, selector.phase)
    if selector.iteration is not None:
        yield _in_iteration(basis, selector.iteration)


def operator_names(basis: Basis) -> Collection[str]:
    """Names of operators, and types of nodes."""
    types = _types(basis)
    return {types[code] for code in _codes_of(basis, Category.OPERATOR, Category.NODE)}


def device_names(basis: Basis) -> Collection[str]:
    """Names of device work."""
    return [basis.events.names[code] for code in _codes_of(basis, *DEVICE_WORK)]


def _codes_of(basis: Basis, *categories: Category) -> NDArray[int32]:
    return np.unique(basis.events.name[np.isin(basis.events.category, categories)])


def _of_operator(basis: Basis, pattern: str) -> NDArray[bool_]:
    """Operators by their name; nodes of an ONNX graph by their name or their type."""
    events = basis.events
    named = flags(events.names, pattern)[events.name]
    typed = flags(_types(basis), pattern)[events.name]
    is_node = events.category == Category.NODE
    found: NDArray[bool_] = (events.category == Category.OPERATOR) & named
    found |= is_node & (named | typed)
    return found


def _types(basis: Basis) -> Sequence[str]:
    """Of each name the operator's type, as the first node of that name says it."""
    events = basis.events
    nodes = np.flatnonzero(events.category == Category.NODE)
    first = nodes[np.unique(events.name[nodes], return_index=True)[1]].tolist()
    said = events.details.read(first) if first else {}
    of_code = {
        int(events.name[event]): op_type(events.names[events.name[event]], arguments)
        for event, arguments in said.items()
    }
    return [of_code.get(code, name) for code, name in enumerate(events.names)]


def _in_module(basis: Basis, pattern: str) -> NDArray[bool_]:
    """Events of a module whose name fits, or of one inside it."""
    fits = matcher(pattern)

    def inside(name: str) -> bool:
        parts = name.split(".")
        return any(fits(".".join(parts[: count + 1])) for count in range(len(parts)))

    flagged = np.array([*(inside(name) for name in basis.modules), False], dtype=np.bool_)
    found: NDArray[bool_] = flagged[basis.module]
    return found


def _on_lane(basis: Basis, pattern: str) -> NDArray[bool_]:
    fits = matcher(pattern)
    return np.array(
        [
            fits(lane.label) or fits(lane.thread) or fits(f"{lane.device}:{lane.stream}")
            for lane in basis.events.lanes
        ]
        or [False]
    )


def _of_node(basis: Basis, pattern: str) -> NDArray[bool_]:
    """By the operator graph's node, or by the number of a kernel in a launched graph."""
    nodes = basis.nodes()
    fits = flags(nodes.names, pattern)
    parts = np.array([*(any(fits[row] for row in part) for part in nodes.shares), False])
    number = int(pattern) if pattern.isdigit() else NOTHING - 1
    found: NDArray[bool_] = parts[nodes.part] | (basis.events.graph_node == number)
    return found


def _in_phase(basis: Basis, phase: str) -> NDArray[bool_]:
    """Backward by autograd's nodes, the optimizer by its ranges; forward is what is neither."""
    optimizer = basis.within(flags(basis.events.names, _OPTIMIZER)[basis.events.name]) != NOTHING
    backward = basis.owned.backward & ~optimizer
    masks = {"forward": ~(backward | optimizer), "backward": backward, "optimizer": optimizer}
    chosen: NDArray[bool_] = masks[phase]
    return chosen


def _in_iteration(basis: Basis, iteration: int) -> NDArray[bool_]:
    """Host events that start in a window, and the device work that they launch."""
    every = windows(basis.events, None)
    if not 0 <= iteration < len(every):
        return np.zeros(len(basis.events), dtype=np.bool_)
    window, start_ns = every[iteration], basis.events.start_ns
    device = np.isin(basis.events.category, DEVICE_WORK)
    starts = ~device & (start_ns >= window.start_ns) & (start_ns < window.end_ns)
    found: NDArray[bool_] = starts | device & (basis.within(starts) != NOTHING)
    return found


def _of_tensors(basis: Basis, selector: Selector, chosen: NDArray[bool_]) -> NDArray[bool_]:
    """Events whose innermost operator was given such tensors; only the chosen are looked at."""
    operators = np.unique(basis.owned.operator[chosen])
    said = basis.events.details.read(operators[operators != NOTHING].tolist())
    right = np.zeros(len(chosen) + 1, dtype=np.bool_)
    of_type, of_shape = matcher(selector.dtype or "*"), matcher(selector.shape or "*")
    for event, arguments in said.items():
        call = recorded(arguments)
        right[event] = call is not None and of_type(call.dtype) and of_shape(call.shapes)
    found: NDArray[bool_] = right[basis.owned.operator]
    return found
