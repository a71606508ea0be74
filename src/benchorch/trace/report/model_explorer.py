"""Files for Model Explorer: the graph with its paths, and one overlay a metric.

The viewer joins them by the graph's id and the nodes' ids. A node has its own time only, so that
the viewer may add up the values of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from benchorch.trace.report.colors import PATH, RAMP, heat, text_on
from benchorch.trace.report.context import duration, share
from benchorch.trace.report.graph_times import GraphTimes, NodeTime
from benchorch.units import NS_PER_US

OF_SHARES, OF_LIMITS = ("min", "max", "avg"), ("sum", "avg")
"""Statistics without meaning in a group: for shares all but the sum, for limits the sum."""

ADDING_UP = ("on_path_us", "critical_share")

BOUND_COLORS = {"compute": "#2e7d32", "memory": "#66a61e", "latency": "#e6ab02"}


def node_data(times: GraphTimes, makespan_ns: int) -> Mapping[str, dict[str, object]]:
    """Contents of one file for each metric, by the metric's name in its file's."""
    ids = viewer_ids(times.graph)
    found = {ids[name]: time for name, time in times.of.items()}
    rest_ns = makespan_ns - sum(time.on_path_ns for time in found.values())
    numbers: Mapping[str, tuple[str, Callable[[NodeTime], float | None]]] = {
        "on_path_us": (
            f"on path µs ({duration(rest_ns)} on no node)",
            lambda time: time.on_path_ns / NS_PER_US,
        ),
        "critical_share": (
            "critical share %",
            lambda time: 100 * share(time.on_path_ns, makespan_ns),
        ),
        "drag": ("drag %", lambda time: _drag_percent(time, makespan_ns)),
        "max_speedup": ("max speedup", lambda time: _limit(time, makespan_ns)),
        "roofline": ("roofline efficiency %", _efficiency_percent),
    }
    files: dict[str, dict[str, object]] = {}
    for metric, (name, value) in numbers.items():
        known = {key: n for key, time in found.items() if (n := value(time)) is not None}
        if known:
            hidden = OF_SHARES if metric in ADDING_UP else OF_LIMITS
            files[metric] = {times.graph.name: _shaded(name, known, hidden)}
    bounds = {key: time.row.bound for key, time in found.items() if time.row and time.row.bound}
    if bounds:
        files["bound"] = {times.graph.name: _bounds(bounds)}
    return files


def edge_overlays(times: GraphTimes) -> dict[str, object]:
    """The critical path as it ran and the longest path of the data, as edges to draw."""
    ids = viewer_ids(times.graph)
    observed = [(ids[a], ids[b], duration(times.of[b].on_path_ns)) for a, b in times.observed]
    dataflow = [
        (ids[a], ids[b], duration(times.of[b].total_ns)) for a, b in pairwise(times.dataflow)
    ]
    overlays = [_overlay("observed", PATH, 3, observed)]
    if dataflow:
        overlays.append(_overlay("dataflow", "#2166ac", 2, dataflow))
    return {
        "type": "edge_overlays",
        "name": "critical path",
        "graphName": times.graph.name,
        "overlays": overlays,
    }


def viewer_ids(graph: OperatorGraph) -> Mapping[str, str]:
    """The viewer's id of each node: its name, or the number that it gives a nameless one."""
    return {node.name: node.attributes.get("viewer_id", node.name) for node in graph.nodes}


def viewer_graph(times: GraphTimes) -> list[dict[str, object]]:
    """The graph with its paths, so that the viewer needs no file of the model."""
    ids = viewer_ids(times.graph)
    nodes = [_node(node, ids) for node in times.graph.nodes]
    tasks = {"edgeOverlaysDataListLeftPane": [edge_overlays(times)]}
    return [{"id": times.graph.name, "nodes": nodes, "tasksData": tasks}]


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


def _drag_percent(time: NodeTime, makespan_ns: int) -> float | None:
    return None if time.drag_ns is None else 100 * share(time.drag_ns, makespan_ns)


def _limit(time: NodeTime, makespan_ns: int) -> float | None:
    if time.drag_ns is None:
        return None
    left_ns = makespan_ns - time.drag_ns
    return makespan_ns / left_ns if left_ns else float("inf")


def _efficiency_percent(time: NodeTime) -> float | None:
    attained = time.row.efficiency_ratio if time.row else None
    return None if attained is None else 100 * attained


def _shaded(name: str, values: Mapping[str, float], hidden: Sequence[str]) -> dict[str, object]:
    """Every node with its own color, as the viewer's gradient divides by the values' range."""
    finite = [value for value in values.values() if value != float("inf")]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    results = {}
    for key, value in values.items():
        number = round(min(value, high), 4)
        color = heat(share(number - low, high - low) if high > low else 0.0)
        results[key] = {"value": number, "bgColor": color, "textColor": text_on(color)}
    gradient = [{"stop": at, "bgColor": color, "textColor": text_on(color)} for at, color in RAMP]
    return {
        "name": name,
        "results": results,
        "gradient": gradient,
        "hideAggregatedStats": list(hidden),
    }


def _bounds(bounds: Mapping[str, str]) -> dict[str, object]:
    results = {}
    for key, bound in bounds.items():
        color = BOUND_COLORS.get(bound, "#bdbdbd")
        results[key] = {"value": bound, "bgColor": color, "textColor": text_on(color)}
    return {
        "name": "bound class",
        "results": results,
        "showExpandedSummaryOnGroupNode": True,
        "hideAggregatedStats": [*OF_SHARES, "sum"],
    }


def _overlay(
    name: str, color: str, width: int, edges: Sequence[tuple[str, str, str]]
) -> dict[str, object]:
    listed = [
        {"sourceNodeId": tail, "targetNodeId": head, "label": label} for tail, head, label in edges
    ]
    return {"name": name, "edgeColor": color, "edgeWidth": width, "edges": listed}
