"""Graph of the operators that Inductor generated code for, parsed from its own listing."""

import ast
from pathlib import Path

from benchorch.errors import TraceError
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode

_OPERATORS = "torch.ops."


def read_inductor_graph(path: Path) -> OperatorGraph:
    """The graph of a file that Inductor wrote: a module's ``forward``, one operator a statement.

    Weights and inputs, which compute nothing, are left out.
    """
    try:
        # The class of a traced function is called what no class can be called.
        tree = ast.parse(
            path.read_text(encoding="utf-8").replace("class <lambda>", "class Graph", 1)
        )
    except (OSError, SyntaxError, ValueError) as error:
        raise TraceError(f"{path} is no graph that Inductor wrote: {error}") from error
    nodes: dict[str, OperatorNode] = {}
    for statement in ast.walk(tree):
        node = _node(statement, nodes)
        if node is not None:
            nodes[node.name] = node
    if not nodes:
        raise TraceError(f"{path} is no graph that Inductor wrote: it has no operators")
    return OperatorGraph(name="inductor", nodes=tuple(nodes.values()), source="inductor")


def _node(statement: ast.AST, before: dict[str, OperatorNode]) -> OperatorNode | None:
    """``name: "shape" = operator(...)``, or None for any other statement."""
    if not isinstance(statement, ast.AnnAssign | ast.Assign) or statement.value is None:
        return None
    target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
    value = statement.value
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Call | ast.Subscript):
        return None
    read = [part.id for part in ast.walk(value) if isinstance(part, ast.Name)]
    return OperatorNode(
        name=target.id,
        op=_operator(value),
        inputs=tuple(dict.fromkeys(name for name in read if name in before)),
        attributes=_shape(statement),
    )


def _operator(value: ast.Call | ast.Subscript) -> str:
    """``aten.addmm``, without the overload; an element of a tuple is a ``getitem``."""
    if isinstance(value, ast.Subscript):
        return "getitem"
    name = ast.unparse(value.func).removeprefix(_OPERATORS)
    return ".".join(name.split(".")[:2])


def _shape(statement: ast.AnnAssign | ast.Assign) -> dict[str, str]:
    """The output's annotation: ``f32[1, 128][128, 1]cpu``."""
    annotation = statement.annotation if isinstance(statement, ast.AnnAssign) else None
    return {"outputs": str(annotation.value)} if isinstance(annotation, ast.Constant) else {}
