import importlib.util
import json

import pytest

from benchorch.trace.attribution.owners import owners
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from benchorch.trace.report.ancestry import ancestry
from benchorch.trace.report.called_graph import OWN_GRAPH
from benchorch.trace.report.graph_times import graph_times
from benchorch.trace.report.model_explorer import edge_overlays, node_data, viewer_graph
from support.analyzed_traces import HOSTILE, analysed, trace_file, two_layers


def measured(folder, events, graph=None):
    analysis = analysed(trace_file(folder / "trace.json", events), graph)
    above = ancestry(analysis.events, owners(analysis.events))
    return analysis, graph_times(analysis, above)


def test_on_path_times_of_nodes_and_of_none_sum_to_the_makespan(tmp_path):
    analysis, times = measured(tmp_path, two_layers())
    (data,) = node_data(times, analysis.dag.makespan_ns)["on_path_us"].values()
    on_nodes_us = sum(result["value"] for result in data["results"].values())
    rest_us = analysis.dag.makespan_ns / 1000 - on_nodes_us
    assert 0 < on_nodes_us < analysis.dag.makespan_ns / 1000
    assert f"{rest_us:.1f} µs on no node" in data["name"]
    assert data["hideAggregatedStats"] == ["min", "max", "avg"]


def test_every_value_has_a_color_even_where_all_are_equal(tmp_path):
    events = [event for event in two_layers() if event["name"] != "aten::cat"][:5]
    analysis, times = measured(tmp_path, events)
    for content in node_data(times, analysis.dag.makespan_ns).values():
        for result in content[OWN_GRAPH]["results"].values():
            assert result["bgColor"].startswith("#")
            assert result["textColor"].startswith("#")


def test_a_group_s_values_are_its_own_and_no_member_s_twice(tmp_path):
    analysis, times = measured(tmp_path, two_layers())
    (data,) = node_data(times, analysis.dag.makespan_ns)["critical_share"].values()
    assert sum(result["value"] for result in data["results"].values()) <= 100


def test_overlays_join_nodes_that_the_graph_has(tmp_path):
    _, times = measured(tmp_path, two_layers(HOSTILE))
    ids = {node["id"] for node in viewer_graph(times)[0]["nodes"]}
    overlays = edge_overlays(times)["overlays"]
    edges = [edge for overlay in overlays for edge in overlay["edges"]]
    assert edges
    assert {edge[end] for edge in edges for end in ("sourceNodeId", "targetNodeId")} <= ids


def test_a_nameless_node_has_the_viewer_s_name_for_it(tmp_path):
    nodes = (
        OperatorNode(name="mm", op="MatMul", attributes={"viewer_id": "<node_4>"}),
        OperatorNode(name="relu", op="Relu", inputs=("mm",)),
    )
    analysis, times = measured(
        tmp_path, two_layers(), OperatorGraph(name="main", nodes=nodes, source="onnx")
    )
    (data,) = node_data(times, analysis.dag.makespan_ns)["on_path_us"].values()
    assert set(data["results"]) == {"<node_4>", "relu"}


@pytest.mark.skipif(
    importlib.util.find_spec("model_explorer") is None,
    reason="Model Explorer's own package is not installed: pip install ai-edge-model-explorer",
)
def test_its_own_package_takes_every_file(tmp_path):
    from model_explorer import graph_builder, node_data_builder

    analysis, times = measured(tmp_path, two_layers(HOSTILE))
    for content in node_data(times, analysis.dag.makespan_ns).values():
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
    (graph,) = viewer_graph(times)
    for node in graph["nodes"]:
        edges = [graph_builder.IncomingEdge(**edge) for edge in node["incomingEdges"]]
        attributes = [graph_builder.KeyValue(**pair) for pair in node["attrs"]]
        graph_builder.GraphNode(**{**node, "incomingEdges": edges, "attrs": attributes})
    for overlay in edge_overlays(times)["overlays"]:
        edges = [graph_builder.Edge(**edge) for edge in overlay["edges"]]
        graph_builder.EdgeOverlay(**{**overlay, "edges": edges})
