"""The operators of an exported PyTorch program (.pt2) as a graph."""

import zipfile
from pathlib import Path
from typing import Any

from benchorch.errors import BuildError, TraceError
from benchorch.frameworks.program_archive import read_program
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode

NAME = "graph"
"""Name under which viewers show the graph of an exported program."""

INPUT = "Input"
"""Type of the nodes for the program's inputs."""


def read_export_graph(path: Path) -> OperatorGraph:
    """Operators of a file written by ``torch.export.save``."""
    if not zipfile.is_zipfile(path):
        there = "it is no archive" if path.exists() else "there is no such file"
        raise TraceError(f"{path} is no exported program: {there}; torch.export.save writes one")
    try:
        program = read_program(path)
    except (BuildError, OSError) as error:
        raise TraceError(
            f"{error}; write it with torch.export.save under the same version"
        ) from error
    return operator_graph(program)


def operator_graph(program: Any) -> OperatorGraph:
    """The same of a ``torch.export.ExportedProgram``; parameters compute nothing: left out."""
    given = set(program.graph_signature.user_inputs)
    nodes: list[OperatorNode] = []
    kept: set[str] = set()
    for node in program.graph.nodes:
        if node.op == "call_function" or node.name in given:
            reads = tuple(source.name for source in node.all_input_nodes if source.name in kept)
            nodes.append(_node(node, reads))
            kept.add(node.name)
    return OperatorGraph(name=NAME, nodes=tuple(nodes), source="export")


def _node(node: Any, reads: tuple[str, ...]) -> OperatorNode:
    return OperatorNode(
        name=node.name,
        op=str(node.target) if node.op == "call_function" else INPUT,
        inputs=reads,
        module=_module(node),
        attributes={"shape": _shape(node.meta.get("val"))},
    )


def _module(node: Any) -> str:
    """The innermost module that it was traced in, by its qualified name."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]).removeprefix("L['self'].").removeprefix("L['self']") if stack else ""


def _shape(value: Any) -> str:
    """A tensor's dtype and sizes; of several, each."""
    if isinstance(value, tuple | list):
        return ", ".join(_shape(item) for item in value)
    if not hasattr(value, "dtype"):
        return ""
    sizes = ", ".join(str(size) for size in value.shape)
    return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"
