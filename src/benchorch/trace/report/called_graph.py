"""The graph of called operators, for traces without the model's own graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy import bool_, int32, int64
from numpy.typing import NDArray

from benchorch.trace.analysed import Analysed
from benchorch.trace.attribution.entities import Entities
from benchorch.trace.distinct import distinct
from benchorch.trace.events import NOTHING
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from benchorch.trace.report.ancestry import Ancestry

OWN_GRAPH, OWN_SOURCE = "called", "trace"
"""Name and source of such a graph."""


def called_graph(analysis: Analysed, above: Ancestry) -> tuple[OperatorGraph, Entities]:
    """Operators of modules as nodes; edges lead from each call on a lane to the next."""
    events, operator = analysis.events, above.outermost_operators()
    inside = _in_window(analysis)
    calls = np.flatnonzero((operator == np.arange(len(events))) & inside)
    calls = calls[np.argsort(events.start_ns[calls], kind="stable")]
    span = len(events.names)
    code = (above.module[calls] + 1) * span + events.name[calls]
    keys = distinct(code)
    by_first = np.argsort(keys.first, kind="stable")
    number = np.argsort(by_first)[keys.place]
    place = np.full(len(events) + 1, NOTHING, dtype=np.int64)
    place[calls] = number
    found = [
        (above.module_name(key // span - 1), events.names[key % span])
        for key in keys.values[by_first].tolist()
    ]
    nodes = _nodes(found, _followed(events.lane[calls], number))
    entities = Entities(
        names=tuple(node.name for node in nodes),
        part=np.where(inside, place[operator], NOTHING),
        shares=tuple({index: 1.0} for index in range(len(nodes))),
        instance=operator,
    )
    return OperatorGraph(name=OWN_GRAPH, nodes=nodes, source=OWN_SOURCE), entities


def _followed(lane: NDArray[int32], number: NDArray[int64]) -> dict[int, dict[int, None]]:
    """By node, those it was called right after on a lane, among the nodes that came before it."""
    before: dict[int, dict[int, None]] = {}
    for one in np.unique(lane).tolist():
        for tail, head in pairs_along(number[lane == one]):
            if tail < head:
                before.setdefault(head, {})[tail] = None
    return before


def _nodes(
    found: Sequence[tuple[str, str]], before: Mapping[int, Iterable[int]]
) -> tuple[OperatorNode, ...]:
    names = [f"{module}/{op}" if module else op for module, op in found]
    return tuple(
        OperatorNode(
            name=names[index],
            op=op,
            inputs=tuple(names[tail] for tail in before.get(index, ())),
            module=module,
        )
        for index, (module, op) in enumerate(found)
    )


def _in_window(analysis: Analysed) -> NDArray[bool_]:
    window, events = analysis.dag.window, analysis.events
    inside: NDArray[bool_] = (events.start_ns >= window.start_ns) & (
        events.start_ns <= window.end_ns
    )
    return inside


def pairs_along(along: NDArray[int64]) -> list[tuple[int, int]]:
    """Different neighbours of a series, each pair once, in the order of their first occurrence."""
    before, after = along[:-1], along[1:]
    changed = before != after
    span = int(along.max(initial=0)) + 1
    codes = distinct(before[changed] * span + after[changed])
    ordered = codes.values[np.argsort(codes.first, kind="stable")]
    return list(zip((ordered // span).tolist(), (ordered % span).tolist(), strict=True))
