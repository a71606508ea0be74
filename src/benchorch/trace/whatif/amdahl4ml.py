"""Amdahl4ML's ``speedups.json``: some nodes of the grouped operator graph are so much faster."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, final

import msgspec
import numpy as np
from msgspec import Meta

from benchorch.errors import TraceError
from benchorch.pages.markup import shortened
from benchorch.trace.arrays import Floats
from benchorch.trace.events import Category
from benchorch.trace.operators.graph import plain_op
from benchorch.trace.operators.grouping import Grouping, by_pattern
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.selector import suggest
from benchorch.trace.whatif.transforms import Hypothesis

LEAST_SPEEDUP = 1e-6  # below it times would be too long to be added up


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpeedups:
    """Speed-ups by number and type of the grouped graph's nodes; a number takes precedence."""

    by_id: Mapping[int, float]  # of nodes, by their number in the grouped graph
    by_type: Mapping[str, float]  # of operator types, as the grouped graph calls them

    def apply(self, basis: Basis, hypothesis: Hypothesis) -> Hypothesis:
        """Everything that the node's operator does and launches, in the same proportion."""
        ratio = np.append(self._left(basis), 1.0)[basis.dag.owner]
        changed = hypothesis.scaled(basis.work, ratio)
        timed, grouping = set(basis.nodes.names), _grouped(basis)
        if grouping:
            for number in sorted(self.by_id):
                name = grouping.numbered[number]
                if timed.isdisjoint(grouping.members[name]):
                    note = f"op_id {number}, {shortened(name)}, has no time in the trace."
                    changed = changed.noting(note)
        return changed

    def __str__(self) -> str:
        ids = [f"op_id {number}, speedup {speedup:g}" for number, speedup in self.by_id.items()]
        types = [f"op_type {name}, speedup {speedup:g}" for name, speedup in self.by_type.items()]
        return f"NodeSpeedups({'; '.join(ids + types)})"

    def problems(self, basis: Basis) -> list[str]:
        """Numbers and types that the model does not have."""
        grouping = _grouped(basis)
        nodes = grouping.graph.nodes if grouping else ()
        types = {plain_op(node.op) for node in nodes} | set(_operators(basis).values())
        found = [
            f"op_type {name!r} is none of this model's.{suggest(name, types)}"
            for name in self.by_type
            if plain_op(name) not in types
        ]
        if self.by_id and not grouping:
            return [*found, "op_id: the graph of the model's operators is not known; use op_type."]
        numbered = grouping.numbered if grouping else {}
        return found + [
            f"op_id {number} is none of the {len(numbered)} nodes, which have the numbers "
            f"{min(numbered, default=0)} to {max(numbered, default=0)}."
            for number in self.by_id
            if number not in numbered
        ]

    def _left(self, basis: Basis) -> Floats:
        """The part of its time that each event keeps, (n,): by its node, else by its operator."""
        by_type = {plain_op(name): speedup for name, speedup in self.by_type.items()}
        events = basis.events
        of_name = np.ones(len(events.names) + 1)
        for code, op in _operators(basis).items():
            of_name[code] = 1.0 / by_type.get(op, 1.0)
        is_operator = events.category == Category.OPERATOR
        operator = basis.within(is_operator & (of_name[events.name] != 1.0))
        by_operator = np.where(operator >= 0, of_name[events.name[operator]], 1.0)
        speedup = dict[str, float]()
        grouping = _grouped(basis)
        if grouping:
            by_id = {grouping.numbered[number]: found for number, found in self.by_id.items()}
            for node in grouping.graph.nodes:
                found = by_id.get(node.name, by_type.get(plain_op(node.op), 1.0))
                speedup.update(dict.fromkeys(grouping.members[node.name], found))
        nodes = basis.nodes
        by_node = [
            sum(share / speedup.get(nodes.names[row], 1.0) for row, share in part.items())
            for part in nodes.shares
        ]
        return np.where(nodes.part >= 0, np.array([*by_node, 1.0])[nodes.part], by_operator)


class _Entry(msgspec.Struct):
    speedup: Annotated[float, Meta(ge=LEAST_SPEEDUP, le=sys.float_info.max)]
    op_id: Annotated[int, Meta(ge=0)] | None = None
    op_type: str | None = None


def node_speedups(listed: object) -> NodeSpeedups:
    """The change under ``speedups``; entries with neither an id nor a type are ignored."""
    if not isinstance(listed, list):
        raise TraceError(f"expected a list, saw {listed!r}.")
    problems: list[str] = []
    by_id: dict[int, float] = {}
    by_type: dict[str, float] = {}
    for number, value in enumerate(listed, 1):
        try:
            entry = msgspec.convert(value, _Entry, strict=False)
        except msgspec.ValidationError as error:
            problems.append(f"entry {number}: {error}; saw {value!r}.")
            continue
        if entry.op_id is not None:
            by_id[entry.op_id] = entry.speedup
        elif entry.op_type is not None:
            by_type[entry.op_type] = entry.speedup
    if problems:
        raise TraceError("\n".join(problems))
    return NodeSpeedups(by_id=by_id, by_type=by_type)


def _grouped(basis: Basis) -> Grouping | None:
    """The model's operators in groups; None where no model is given."""
    return by_pattern(basis.graph) if basis.graph else None


def _operators(basis: Basis) -> Mapping[int, str]:
    """The plain type of each operator's name in the trace, by the number of the name."""
    events = basis.events
    codes = np.unique(events.name[events.category == Category.OPERATOR]).tolist()
    return {code: plain_op(events.names[code]) for code in codes}
