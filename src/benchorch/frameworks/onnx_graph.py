"""The operators of an ONNX file as a graph; its weights are not read."""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchorch.errors import TraceError
from benchorch.files import read_small
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode

_SCOPES = "pkg.torch.onnx.name_scopes"
"""Metadata key under which PyTorch's exporter stores the modules of a node."""

INPUT = "Input"
"""Type of the nodes for the graph's inputs."""


def read_onnx_graph(path: Path) -> OperatorGraph:
    """Operators of the file's main graph, without constants."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        content = read_small(path, links=True, most_bytes=onnx.checker.MAXIMUM_PROTOBUF)
        model = onnx.load_model_from_string(content)
        graph = operator_graph(model)
    except (OSError, DecodeError, ValueError) as error:
        raise TraceError(f"{path} is no ONNX model that can be read: {error}") from error
    if not model.graph.node:
        raise TraceError(f"{path} is no ONNX model: it has no nodes; an .onnx file is needed")
    return graph


def operator_graph(model: Any) -> OperatorGraph:
    """The same of a model in memory, an ``onnx.ModelProto``; ValueError for an unknown dtype."""
    graph = model.graph
    shapes = _shapes(graph)
    held = {tensor.name for tensor in graph.initializer}
    nodes = [
        OperatorNode(name=name, op=INPUT, attributes={"shape": shapes.get(name, "")})
        for name in (value.name for value in graph.input)
        if name not in held
    ]
    made = {node.name: node.name for node in nodes}
    names = dict.fromkeys((node.name for node in nodes), 1)
    for index, node in enumerate(graph.node):
        if node.op_type == "Constant":
            continue
        name = _unique(node.name or f"{node.op_type}_{index}", names)
        reads = dict.fromkeys(made[tensor] for tensor in _read(node) if tensor in made)
        nodes.append(_node(node, index, name, tuple(reads), shapes))
        made.update(dict.fromkeys(node.output, name))
    return OperatorGraph(name=graph.name, nodes=tuple(nodes), source="onnx")


def _node(
    node: Any, index: int, name: str, reads: tuple[str, ...], shapes: Mapping[str, str]
) -> OperatorNode:
    facts = {
        "outputs": ", ".join(node.output),
        "shape": shapes.get(next(iter(node.output), ""), ""),
    }
    if not node.name:
        facts["viewer_id"] = f"<node_{index}>"
    return OperatorNode(
        name=name,
        op=node.op_type,
        inputs=reads,
        module=_module(node),
        attributes=facts | {"node_index": str(index)},
    )


def _read(node: Any) -> Iterable[str]:
    """Tensors that a node reads, those that its branches and bodies take from outside too."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _read(inner)


def _unique(name: str, taken: dict[str, int]) -> str:
    """The name, with a number where another node has it.

    Args:
        taken: each name with the last number that it has got; thousands of nodes may share one.
    """
    found = name
    while found in taken:
        taken[name] += 1
        found = f"{name}#{taken[name]}"
    taken[found] = 1
    return found


def _module(node: Any) -> str:
    """From what the exporter noted, else from a name like ``/encoder/layer.0/MatMul``."""
    for entry in node.metadata_props:
        if entry.key == _SCOPES:
            return _last_scope(entry.value)
    parts = node.name.split("/")
    return ".".join(parts[1:-1]) if len(parts) > 2 and not parts[0] else ""


def _last_scope(text: str) -> str:
    """The innermost module of a list that ends with the operator's own name."""
    try:
        scopes = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return ""
    listed = scopes[:-1] if isinstance(scopes, list | tuple) else ()
    modules = [scope for scope in listed if isinstance(scope, str) and scope]
    return modules[-1] if modules else ""


def _shapes(graph: Any) -> dict[str, str]:
    """Type and shape of each tensor, as ``float32[1, 8, n]``."""
    import onnx

    known = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.elem_type:
            sizes = ", ".join(size.dim_param or str(size.dim_value) for size in kind.shape.dim)
            dtype = onnx.TensorProto.DataType.Name(kind.elem_type).lower()
            known[value.name] = f"{dtype}[{sizes}]"
    return known
