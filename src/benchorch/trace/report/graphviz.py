"""Pictures of the model's graph for Graphviz: every operator, or those that one kernel often does.

Graphviz lays them out: ``dot -Tsvg graph.dot``.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from benchorch.pages.markup import shortened
from benchorch.trace.attribution.tables import EntityRow
from benchorch.trace.operators.branches import branches, dataflow_path
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trace.operators.grouping import by_pattern
from benchorch.trace.report.model_explorer import PATH_COLOR, heat
from benchorch.trace.report.table import duration, percent


def pictures(graph: OperatorGraph, rows: Mapping[str, EntityRow], period_ns: int) -> dict[str, str]:
    """Contents of the pictures by their names; nodes have the times of one period."""
    times = {name: (row.total_ns, row.on_path_ns) for name, row in rows.items()}
    grouping = by_pattern(graph)
    grouped = {
        name: tuple(map(sum, zip(*(times.get(one, (0, 0)) for one in members), strict=True)))
        for name, members in grouping.members.items()
    }
    return {
        "graph": _dot(graph, times, period_ns, {}),
        "graph_grouped": _dot(grouping.graph, grouped, period_ns, grouping.numbered),
    }


def _dot(
    graph: OperatorGraph,
    times: Mapping[str, Sequence[int]],
    period_ns: int,
    numbered: Mapping[int, str],
) -> str:
    """Nodes shaded by their share of the period, the longest chain of data in dark red.

    An edge into a branch has that branch's share of the time of all branches of its fork.
    """
    total_ns = {name: total for name, (total, _) in times.items()}
    op_id = {name: number for number, name in numbered.items()}
    number = {node.name: place for place, node in enumerate(graph.nodes)}
    chain = {*pairwise(dataflow_path(graph, total_ns))}
    share = {
        (branch.fork, name): percent(branch.share_ratio)
        for branch in branches(graph, total_ns)
        for name in branch.nodes
    }
    lines = [
        f"digraph {_text(graph.name)} {{",
        f"rankdir={graph.library.rankdir}",
        "node [shape=box style=filled fontname=Helvetica]",
    ]
    for node in graph.nodes:
        total, on_path = times.get(node.name, (0, 0))
        ratio = on_path / max(period_ns, 1)
        time = [f"{duration(total)}, {percent(ratio)} of the path"] if total else []
        label = _text(node.op, *time)
        known = f"op_id {op_id[node.name]}, {node.name}" if node.name in op_id else node.name
        lines.append(
            f'n{number[node.name]} [label={label} tooltip={_text(known)} fillcolor="{heat(ratio)}"]'
        )
    for node in graph.nodes:
        for read in filter(number.__contains__, node.inputs):
            path = f' color="{PATH_COLOR}" penwidth=3' if (read, node.name) in chain else ""
            label = _text(share.get((read, node.name), ""))
            lines.append(f"n{number[read]} -> n{number[node.name]} [label={label}{path}]")
    return "\n".join([*lines, "}", ""])


def _text(*lines: str) -> str:
    """A quoted text in which nothing is markup."""
    kept = (shortened(line, 80).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(kept) + '"'
