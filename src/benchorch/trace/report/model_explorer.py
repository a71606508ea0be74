"""Files for Model Explorer: the model's graph with its paths, and one overlay a metric."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from benchorch.trace.attribution.tables import EntityRow
from benchorch.trace.operators.branches import dataflow_path
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from benchorch.trace.report.table import duration
from benchorch.units import NS_PER_US

PATH_COLOR = "#8b0000"
_LOW, _HIGH = (255, 255, 255), (46, 125, 50)


def node_data(
    graph: OperatorGraph, rows: Mapping[str, EntityRow], period_ns: int
) -> Mapping[str, dict[str, object]]:
    """Contents of one file for each metric, by the metric's name in its file's."""
    ids = viewer_ids(graph)
    known = {ids[name]: row for name, row in rows.items() if name in ids}
    busy_ns = sum(row.total_ns for row in known.values())
    percent = 100 / max(period_ns, 1)
    gains = {key: row.gain_ns for key, row in known.items() if row.gain_ns is not None}
    metrics: dict[str, tuple[str, dict[str, float]]] = {
        "total_us": ("time µs", {key: row.total_ns / NS_PER_US for key, row in known.items()}),
        "critical_share": (
            "critical share %",
            {key: percent * row.on_path_ns for key, row in known.items()},
        ),
        "max_speedup": (
            "max theoretical speedup",
            {key: busy_ns / max(busy_ns - row.total_ns, 1) for key, row in known.items()},
        ),
        "gain": ("period saved if free %", {key: percent * ns for key, ns in gains.items()}),
    }
    return {
        metric: {graph.name: _shaded(name, values, metric in ("total_us", "critical_share"))}
        for metric, (name, values) in metrics.items()
        if values
    }


def edge_overlays(graph: OperatorGraph, rows: Mapping[str, EntityRow]) -> dict[str, object]:
    """The longest chain of data, as edges to draw."""
    ids = viewer_ids(graph)
    nodes = dataflow_path(graph, {name: row.total_ns for name, row in rows.items()})
    edges = [
        {
            "sourceNodeId": ids[tail],
            "targetNodeId": ids[head],
            "label": duration(rows[head].total_ns) if head in rows else "",
        }
        for tail, head in pairwise(nodes)
    ]
    return {
        "type": "edge_overlays",
        "name": "critical path",
        "graphName": graph.name,
        "overlays": [
            {"name": "longest chain", "edgeColor": PATH_COLOR, "edgeWidth": 3, "edges": edges}
        ],
    }


def viewer_ids(graph: OperatorGraph) -> Mapping[str, str]:
    """The viewer's id of each node: its name, or the number that it gives a nameless one."""
    return {node.name: node.attributes.get("viewer_id", node.name) for node in graph.nodes}


def viewer_graph(graph: OperatorGraph, rows: Mapping[str, EntityRow]) -> list[dict[str, object]]:
    """The graph with its paths, so that the viewer needs no file of the model."""
    ids = viewer_ids(graph)
    nodes = [_node(node, ids) for node in graph.nodes]
    tasks = {"edgeOverlaysDataListLeftPane": [edge_overlays(graph, rows)]}
    return [{"id": graph.name, "nodes": nodes, "tasksData": tasks}]


def _node(node: OperatorNode, ids: Mapping[str, str]) -> dict[str, object]:
    return {
        "id": ids[node.name],
        "label": node.op,
        "namespace": node.module.replace("/", "_").replace(".", "/"),
        "attrs": [{"key": key, "value": value} for key, value in node.attributes.items()],
        "incomingEdges": [
            {"sourceNodeId": ids[name], "sourceNodeOutputId": "0", "targetNodeInputId": str(place)}
            for place, name in enumerate(node.inputs)
            if name in ids
        ],
    }


def _shaded(name: str, values: Mapping[str, float], adds_up: bool) -> dict[str, object]:
    """Every node with its own color, as the viewer's gradient divides by the values' range."""
    low, high = min(values.values()), max(values.values())
    results = {}
    for key, value in values.items():
        share = (value - low) / (high - low) if high > low else 0.0
        results[key] = {"value": round(value, 4), "bgColor": heat(share), "textColor": "#000000"}
    hidden: Sequence[str] = ("min", "max", "avg") if adds_up else ("sum", "avg")
    return {
        "name": name,
        "results": results,
        "gradient": [{"stop": at, "bgColor": heat(at)} for at in (0.0, 1.0)],
        "hideAggregatedStats": list(hidden),
    }


def heat(share: float) -> str:
    """White at 0, green at 1; others are clamped."""
    at = 0.75 * min(max(share, 0.0), 1.0)
    parts = (round(low + (high - low) * at) for low, high in zip(_LOW, _HIGH, strict=True))
    return "#" + "".join(f"{part:02x}" for part in parts)
