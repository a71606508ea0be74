"""What a graph's nodes took: in all, on the critical path, and by how much the whole would shrink.

The graph is the model's own where one is known, else what the trace says was called: one node
for each operator of each module, in the order of their first calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchorch.trace.analysed import Analysed
from benchorch.trace.attribution.entities import Entities
from benchorch.trace.attribution.gains import Cut, Gains, gains, part_of
from benchorch.trace.attribution.nodes import graph_nodes
from benchorch.trace.events import NOTHING
from benchorch.trace.findings import EntityRow
from benchorch.trace.operators.branches import dataflow_path
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trace.operators.grouping import Grouping
from benchorch.trace.report.ancestry import Ancestry
from benchorch.trace.report.called_graph import OWN_SOURCE, called_graph, pairs_along

if TYPE_CHECKING:
    from numpy import float64, int32, int64
    from numpy.typing import NDArray

MOST_SIMULATED, MOST_EDGES = 80, 3_000_000
"""Nodes whose drag is simulated here, those with most time on the path, and edges over all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTime:
    """Of one node or group.

    Attributes:
        total_ns: its work; on_path_ns: of it on the critical path.
        drag_ns: by how much the makespan shrinks without it; None where that was not simulated.
        row: of the findings' table, None of a group and of a graph without a table.
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
        dataflow: the nodes of the longest path of data; none where only calls are known.
        entities: which events are whose work.
        asked: simulates what would be gained.
    """

    graph: OperatorGraph
    of: Mapping[str, NodeTime]
    observed: tuple[tuple[str, str], ...]
    dataflow: tuple[str, ...]
    entities: Entities
    asked: Gains


def graph_times(analysis: Analysed, above: Ancestry, spare_ns: NDArray[int64]) -> GraphTimes:
    """Of the model's graph, or of what was called where none is known."""
    if analysis.graph is not None:
        graph = analysis.graph
        entities = graph_nodes(analysis.events, above.owned, graph)
    else:
        graph, entities = called_graph(analysis, above)
    asked = gains(analysis.dag)
    rows = {row.name: row for row in analysis.findings.graph_nodes}
    names = {node.name for node in graph.nodes}
    of = {name: _as_listed(row) for name, row in rows.items() if name in names}
    if not of:
        of = _with_drag(asked, entities, _sums(analysis, entities))
    of = {node.name: of.get(node.name, NodeTime(drag_ns=0)) for node in graph.nodes}
    return GraphTimes(
        graph=graph,
        of=of,
        observed=_observed(analysis, entities, names),
        dataflow=_dataflow(graph, of),
        entities=entities,
        asked=asked,
    )


def grouped_times(times: GraphTimes, grouping: Grouping) -> GraphTimes:
    """The same of groups: what they took and would save as a whole, and the paths between them."""
    group_of = {name: group for group, names in grouping.members.items() for name in names}
    renamed = [group_of.get(name, name) for name in times.entities.names]
    entities = times.entities.renamed(renamed)
    sums = {}
    for group, names in grouping.members.items():
        held = [times.of[name] for name in names]
        total_ns = sum(one.total_ns for one in held)
        sums[group] = NodeTime(total_ns=total_ns, on_path_ns=sum(one.on_path_ns for one in held))
    alone = {g: times.of[names[0]] for g, names in grouping.members.items() if len(names) == 1}
    pairs = ((group_of[a], group_of[b]) for a, b in times.observed)
    return GraphTimes(
        graph=grouping.graph,
        of=_with_drag(times.asked, entities, sums) | alone,
        observed=tuple(dict.fromkeys((a, b) for a, b in pairs if a != b)),
        dataflow=tuple(dict.fromkeys(group_of[name] for name in times.dataflow)),
        entities=entities,
        asked=times.asked,
    )


def _dataflow(graph: OperatorGraph, of: Mapping[str, NodeTime]) -> tuple[str, ...]:
    if graph.source == OWN_SOURCE:
        return ()
    return dataflow_path(graph, {name: one.total_ns for name, one in of.items()}).nodes


def _as_listed(row: EntityRow) -> NodeTime:
    return NodeTime(total_ns=row.total_ns, on_path_ns=row.on_path_ns, drag_ns=row.drag_ns, row=row)


def _sums(analysis: Analysed, entities: Entities) -> dict[str, NodeTime]:
    """Rigid time in the window and time on the path, by name; integers, so that sums are exact."""
    import numpy as np

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
    asked: Gains, entities: Entities, sums: Mapping[str, NodeTime]
) -> dict[str, NodeTime]:
    """Nothing where nothing is on the path, else one simulation each, the longest first."""
    critical = sorted((n for n in sums if sums[n].on_path_ns), key=lambda n: -sums[n].on_path_ns)
    drags = {name: 0 for name, one in sums.items() if one.on_path_ns == 0}
    part = _owned(entities.part, asked.dag.owner)
    row = {name: number for number, name in enumerate(entities.names)}
    most = min(MOST_SIMULATED, MOST_EDGES // max(asked.dag.edges, 1) + 1)
    simulated = [name for name in critical[:most] if name in row]
    cuts = [_cut(asked, entities, part, row[name]) for name in simulated]
    drags |= dict(zip(simulated, asked.saved_each(cuts), strict=True))
    return {
        name: NodeTime(
            total_ns=one.total_ns, on_path_ns=one.on_path_ns, drag_ns=drags.get(name), row=one.row
        )
        for name, one in sums.items()
    }


def _cut(asked: Gains, entities: Entities, part: NDArray[int64], row: int) -> Cut:
    """A row's share of every edge."""
    import numpy as np

    shares = np.array([share.get(row, 0.0) for share in entities.shares] + [0.0])
    held: NDArray[float64] = shares[part]  # the last is that of no part, whose number is -1
    return Cut.of(part_of(asked.dag.weight_ns, held))


def _owned(part: NDArray[int64], owner: NDArray[int32]) -> NDArray[int64]:
    """The part that each owner is, NOTHING of nobody."""
    import numpy as np

    return np.append(part, NOTHING)[owner]


def _observed(
    analysis: Analysed, entities: Entities, names: set[str]
) -> tuple[tuple[str, str], ...]:
    """Where several nodes share a kernel, the path is taken to be in the largest of them."""
    import numpy as np

    largest = [max(share, key=lambda row: share[row]) for share in entities.shares]
    row = np.array([*largest, NOTHING], dtype=np.int64)[_owned(entities.part, analysis.path.owner)]
    known = np.array([*(name in names for name in entities.names), False], dtype=bool)
    named = entities.names
    return tuple((named[a], named[b]) for a, b in pairs_along(row[known[row]]))
