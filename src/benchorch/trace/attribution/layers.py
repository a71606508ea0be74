"""Rows of modules and of repeated layers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.attribution.entities import Entities, Shares
from benchorch.trace.attribution.owners import Owners, inherited, module_names
from benchorch.trace.attribution.workloads import OperatorWork
from benchorch.trace.events import NOTHING, Category, Events
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trace.operators.repeated_layers import (
    repeated_names,
    starred,
    structures,
    tandem_repeats,
)

LONGEST_SEQUENCE = 20_000
"""Operators that are searched for repeats; a window of more has other tables to be read by."""

SHOWN_OPERATORS = 3
"""Of a repeated run, in its row's name."""


def modules(
    events: Events, owned: Owners, by_node: Entities, graph: OperatorGraph | None = None
) -> Entities:
    """Rows by the innermost module: of the graph's nodes where they are known, else of the ranges.

    Compiled code has no ranges inside, but the graph has the module of each node; a kernel of
    several modules is shared by them as it is by its nodes.
    """
    code, names = module_names(events, owned)
    rows = {name: number for number, name in enumerate(names)}
    shares: list[Shares] = [{number: 1.0} for number in range(len(names))]
    translated = np.full(len(by_node.shares) + 1, NOTHING, dtype=np.int64)  # the last: no part
    for number, divided in enumerate(_modules_of(by_node, _known_modules(by_node, graph))):
        if divided:
            translated[number] = len(shares)
            divisions = {rows.setdefault(name, len(rows)): by for name, by in divided.items()}
            shares.append(divisions)
    part = np.where(translated[by_node.part] >= 0, translated[by_node.part], code)
    instance = np.where(translated[by_node.part] >= 0, by_node.instance, owned.module)
    return Entities(
        names=tuple(rows),
        part=part,
        shares=tuple(shares),
        instance=np.where(part >= 0, instance, NOTHING),
    )


def folds(
    events: Events,
    owned: Owners,
    by_module: Entities,
    by_node: Entities,
    workloads: Mapping[int, OperatorWork],
    in_window: NDArray[np.bool_],
) -> Entities:
    """Repeated layers as one row: of modules, of nodes, or of operators."""
    if by_module.names:
        structure = _structures(events, owned, workloads)
        rows = repeated_names(by_module.names, structure)
        return by_module.renamed([rows[name] for name in by_module.names])
    if by_node.names:
        return by_node.renamed([starred(name) for name in by_node.names])
    return _runs(events, owned, in_window)


def _known_modules(by_node: Entities, graph: OperatorGraph | None) -> Mapping[str, str]:
    """The module of each node; names such as ``/encoder/layer.0/MatMul`` contain it."""
    known = {node.name: node.module for node in graph.nodes if node.module} if graph else {}
    for name in by_node.names:
        outer, _, _ = name.rpartition("/")
        if name.startswith("/") and outer and name not in known:
            known[name] = outer.strip("/").replace("/", ".")
    return known


def _modules_of(by_node: Entities, module: Mapping[str, str]) -> list[dict[str, float]]:
    """How each part is divided among the modules of those of its nodes that have one."""
    found = []
    for shares in by_node.shares:
        divided: dict[str, float] = defaultdict(float)
        for row, share in shares.items():
            if by_node.names[row] in module:
                divided[module[by_node.names[row]]] += share
        whole = sum(divided.values())
        found.append({name: share / whole for name, share in divided.items()})
    return found


def _structures(
    events: Events, owned: Owners, workloads: Mapping[int, OperatorWork]
) -> Mapping[str, Hashable]:
    """Of every module that is called what it calls, from the first of its calls."""
    code, names = module_names(events, owned)
    first: dict[int, int] = {}
    called: dict[str, list[Hashable]] = defaultdict(list)
    for event in sorted(workloads, key=lambda one: int(events.start_ns[one])):
        module = int(owned.module[event])
        if module != NOTHING and not owned.backward[event]:
            number = int(code[event])
            if first.setdefault(number, module) == module:
                called[names[number]].append((workloads[event].op, workloads[event].shapes))
    ordered = sorted(names, key=lambda name: name.count("."))
    above = {name: _nearest(name, names) for name in ordered}
    known = structures(above, called)
    return {name: known[name] for name in names if name in called}


def _nearest(name: str, names: Sequence[str]) -> str:
    """The longest other name that this one is below of."""
    parts = name.split(".")
    outer = (".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1))
    return next((one for one in outer if one in names), "")


def _runs(events: Events, owned: Owners, in_window: NDArray[np.bool_]) -> Entities:
    """Operators that follow each other again and again; each copy of a run is one occurrence."""
    outermost = np.where(owned.parent >= 0, owned.operator[owned.parent], NOTHING) == NOTHING
    chosen = np.flatnonzero(
        (events.category == Category.OPERATOR) & outermost & in_window[: len(events)]
    )
    order = chosen[np.lexsort((events.start_ns[chosen], events.lane[chosen]))]
    order = order[: LONGEST_SEQUENCE if len(order) <= LONGEST_SEQUENCE else 0]
    called = [events.names[code] for code in events.name[order].tolist()]
    row = np.full(len(events), NOTHING, dtype=np.int64)
    first = np.full(len(events), NOTHING, dtype=np.int64)
    names: dict[str, int] = {}
    for run in tandem_repeats(called):
        copy = called[run.start : run.start + run.length]
        more = f" and {run.length - SHOWN_OPERATORS} more" if run.length > SHOWN_OPERATORS else ""
        name = f"{run.copies} times {', '.join(copy[:SHOWN_OPERATORS])}{more}"
        members = order[run.start : run.end]
        row[members] = names.setdefault(name, len(names))
        first[members] = np.repeat(members[:: run.length], run.length)
    return _inheriting(owned, row, first, tuple(names))


def _inheriting(
    owned: Owners, row: NDArray[np.int64], first: NDArray[np.int64], names: tuple[str, ...]
) -> Entities:
    """Rows of operators, for all that they call and launch too."""
    part = inherited(owned.parent, row)
    return Entities(
        names=names,
        part=part,
        shares=tuple({number: 1.0} for number in range(len(names))),
        instance=np.where(part >= 0, inherited(owned.parent, first), NOTHING),
    )
