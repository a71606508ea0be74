import importlib.util
import json

import pytest

from benchorch.trace.attribution.tables import EntityRow
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from benchorch.trace.report.model_explorer import edge_overlays, node_data, viewer_graph
from support.analyzed_traces import HOSTILE


def chain(names):
    """Each node reads the one before."""
    nodes = tuple(
        OperatorNode(name=name, op=name, inputs=tuple(names[max(place - 1, 0) : place]))
        for place, name in enumerate(names)
    )
    return OperatorGraph(name="main", nodes=nodes, source="onnx")


def timed(names):
    return {
        name: EntityRow(name=name, count=1, total_ns=100, on_path_ns=50 + at, gain_ns=at)
        for at, name in enumerate(names)
    }


def test_every_value_has_a_color_even_where_all_are_equal():
    for content in node_data(chain("ab"), timed("ab"), 1_000).values():
        for result in content["main"]["results"].values():
            assert result["bgColor"].startswith("#")
            assert result["textColor"].startswith("#")


def test_shares_are_of_the_period_and_groups_add_them_up():
    (data,) = node_data(chain("ab"), timed("ab"), 1_000)["critical_share"].values()
    assert [one["value"] for one in data["results"].values()] == [5.0, 5.1]
    assert data["hideAggregatedStats"] == ["min", "max", "avg"]


def test_overlays_join_nodes_that_the_graph_has():
    graph, rows = chain(HOSTILE), timed(HOSTILE)
    ids = {node["id"] for node in viewer_graph(graph, rows)[0]["nodes"]}
    edges = [edge for one in edge_overlays(graph, rows)["overlays"] for edge in one["edges"]]
    assert len(edges) == len(HOSTILE) - 1
    assert {edge[end] for edge in edges for end in ("sourceNodeId", "targetNodeId")} <= ids


def test_a_nameless_node_has_the_viewer_s_name_for_it():
    nodes = (
        OperatorNode(name="mm", op="MatMul", attributes={"viewer_id": "<node_4>"}),
        OperatorNode(name="relu", op="Relu", inputs=("mm",)),
    )
    graph = OperatorGraph(name="main", nodes=nodes, source="onnx")
    (data,) = node_data(graph, timed(["mm", "relu"]), 1_000)["total_us"].values()
    assert set(data["results"]) == {"<node_4>", "relu"}


@pytest.mark.skipif(
    importlib.util.find_spec("model_explorer") is None,
    reason="Model Explorer's own package is not installed: pip install ai-edge-model-explorer",
)
def test_its_own_package_takes_every_file():
    from model_explorer import graph_builder, node_data_builder

    rows = timed(HOSTILE)
    graph_of = chain(HOSTILE)
    for content in node_data(graph_of, rows, 1_000).values():
        for graph_name, data in content.items():
            results = {
                key: node_data_builder.NodeDataResult(**result)
                for key, result in data["results"].items()
            }
            stops = [node_data_builder.GradientItem(**stop) for stop in data.get("gradient", [])]
            rest = {key: data[key] for key in data if key not in {"results", "gradient"}}
            built = node_data_builder.GraphNodeData(results=results, gradient=stops, **rest)
            held = node_data_builder.ModelNodeData(graphsData={graph_name: built})
            read = json.loads(held.to_json_string())[graph_name]
            assert read["results"] == data["results"]
    (graph,) = viewer_graph(graph_of, rows)
    for node in graph["nodes"]:
        edges = [graph_builder.IncomingEdge(**edge) for edge in node["incomingEdges"]]
        attributes = [graph_builder.KeyValue(**pair) for pair in node["attrs"]]
        graph_builder.GraphNode(**{**node, "incomingEdges": edges, "attrs": attributes})
    for overlay in edge_overlays(graph_of, rows)["overlays"]:
        edges = [graph_builder.Edge(**edge) for edge in overlay["edges"]]
        graph_builder.EdgeOverlay(**{**overlay, "edges": edges})
