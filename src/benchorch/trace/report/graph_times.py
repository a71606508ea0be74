"""Times of a graph's nodes: total, on the critical path, and drag.

The graph is the model's own where one is known, else that of the called operators: one node for
each operator of each module, in the order of their first calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy import float64, int32, int64
from numpy.typing import NDArray

from benchorch.trace.analysed import Analysed
from benchorch.trace.attribution.entities import Entities
from benchorch.trace.attribution.gains import Cut, Gains, gains, part_of
from benchorch.trace.attribution.nodes import graph_nodes
from benchorch.trace.events import NOTHING
from benchorch.trace.findings import EntityRow
from benchorch.trace.operators.branches import dataflow_path
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trace.report.ancestry import Ancestry
from benchorch.trace.report.called_graph import OWN_SOURCE, called_graph, pairs_along

MOST_SIMULATED, MOST_EDGES = 80, 3_000_000
"""Limits of simulation: nodes, those with most time on the path first, and edges in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTime:
    """Times of one node.

    Attributes:
        total_ns: its work; on_path_ns: of it on the critical path.
        drag_ns: by how much the makespan shrinks without it; None where that was not simulated.
        row: of the findings' table; None for a graph without a table.
    """

    total_ns: int = 0
    on_path_ns: int = 0
    drag_ns: int | None = None
    row: EntityRow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphTimes:
    """A graph and its times.

    Attributes:
        graph: of N nodes.
        of: each node's times, by its name.
        observed: pairs of nodes that follow each other on the observed critical path.
        dataflow: the nodes of the longest path of data; none of a graph of called operators.
    """

    graph: OperatorGraph
    of: Mapping[str, NodeTime]
    observed: tuple[tuple[str, str], ...]
    dataflow: tuple[str, ...]


def graph_times(analysis: Analysed, above: Ancestry) -> GraphTimes:
    """Times of the model's graph, or of the called operators where it is unknown."""
    if analysis.graph is not None:
        graph = analysis.graph
        entities = graph_nodes(analysis.events, above.owned, graph)
    else:
        graph, entities = called_graph(analysis, above)
    names = {node.name for node in graph.nodes}
    listed = {row.name: row for row in analysis.findings.graph_nodes if row.name in names}
    found = {
        name: NodeTime(
            total_ns=row.total_ns, on_path_ns=row.on_path_ns, drag_ns=row.drag_ns, row=row
        )
        for name, row in listed.items()
    } or _with_drag(gains(analysis.dag), entities, _sums(analysis, entities))
    of = {node.name: found.get(node.name, NodeTime(drag_ns=0)) for node in graph.nodes}
    return GraphTimes(
        graph=graph,
        of=of,
        observed=_observed(analysis, entities, names),
        dataflow=_dataflow(graph, of),
    )


def _dataflow(graph: OperatorGraph, of: Mapping[str, NodeTime]) -> tuple[str, ...]:
    if graph.source == OWN_SOURCE:
        return ()
    return dataflow_path(graph, {name: one.total_ns for name, one in of.items()}).nodes


def _sums(analysis: Analysed, entities: Entities) -> dict[str, NodeTime]:
    """Rigid time in the window and time on the path, by name; integers, so that sums are exact."""
    dag, path, parts = analysis.dag, analysis.path, len(entities.shares)
    found = []
    for owner, spent_ns in ((dag.owner, dag.weight_ns), (path.owner, path.duration_ns)):
        part = _owned(entities.part, owner)
        total = np.zeros(parts, dtype=np.int64)
        np.add.at(total, part[part != NOTHING], spent_ns[part != NOTHING])
        found.append(total.tolist())
    sums: dict[str, NodeTime] = {}
    for share, total_ns, on_path_ns in zip(entities.shares, *found, strict=True):
        name = entities.names[max(share, key=lambda row: share[row])]
        before = sums.get(name, NodeTime())
        sums[name] = NodeTime(
            total_ns=before.total_ns + total_ns, on_path_ns=before.on_path_ns + on_path_ns
        )
    return sums


def _with_drag(
    simulator: Gains, entities: Entities, sums: Mapping[str, NodeTime]
) -> dict[str, NodeTime]:
    """Add drags: 0 for nodes off the path, one simulation for each other, the longest first."""
    critical = sorted((n for n in sums if sums[n].on_path_ns), key=lambda n: -sums[n].on_path_ns)
    drags = {name: 0 for name, one in sums.items() if one.on_path_ns == 0}
    part = _owned(entities.part, simulator.dag.owner)
    row = {name: number for number, name in enumerate(entities.names)}
    most = min(MOST_SIMULATED, MOST_EDGES // max(simulator.dag.edges, 1) + 1)
    simulated = [name for name in critical[:most] if name in row]
    cuts = [_cut(simulator, entities, part, row[name]) for name in simulated]
    drags |= dict(zip(simulated, simulator.saved_each(cuts), strict=True))
    return {
        name: NodeTime(
            total_ns=one.total_ns, on_path_ns=one.on_path_ns, drag_ns=drags.get(name), row=one.row
        )
        for name, one in sums.items()
    }


def _cut(simulator: Gains, entities: Entities, part: NDArray[int64], row: int) -> Cut:
    """A row's share of every edge."""
    shares = np.array([share.get(row, 0.0) for share in entities.shares] + [0.0])
    held: NDArray[float64] = shares[part]  # the last is that of no part, whose number is -1
    return Cut.of(part_of(simulator.dag.weight_ns, held))


def _owned(part: NDArray[int64], owner: NDArray[int32]) -> NDArray[int64]:
    """The part of each owner; NOTHING for an edge without owner."""
    return np.append(part, NOTHING)[owner]


def _observed(
    analysis: Analysed, entities: Entities, names: set[str]
) -> tuple[tuple[str, str], ...]:
    """Pairs of nodes along the path; a shared kernel counts for the largest of its nodes."""
    largest = [max(share, key=lambda row: share[row]) for share in entities.shares]
    row = np.array([*largest, NOTHING], dtype=np.int64)[_owned(entities.part, analysis.path.owner)]
    known = np.array([*(name in names for name in entities.names), False], dtype=bool)
    named = entities.names
    return tuple((named[a], named[b]) for a, b in pairs_along(row[known[row]]))
