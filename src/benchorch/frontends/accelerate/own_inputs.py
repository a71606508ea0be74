"""Tensors that a graph makes itself become its inputs, with the values that they had.

A function that tokenises its text has a graph without inputs: a compiler would compute all of it
beforehand, and there would be nothing left to measure.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchorch.frontends.accelerate.capture import is_weight

if TYPE_CHECKING:
    import torch


def with_inputs(
    module: torch.fx.GraphModule, arguments: Sequence[Any]
) -> tuple[torch.fx.GraphModule, Sequence[Any]]:
    """The graph and its arguments; of one without inputs, with those that it makes itself."""
    import torch

    if any(isinstance(each, torch.Tensor) and not is_weight(each) for each in arguments):
        return module, arguments
    made = _values(module, arguments)
    if not made:
        return module, arguments
    lifted = copy.copy(module)
    lifted.graph = torch.fx.Graph()
    values: dict[torch.fx.Node, torch.fx.Node] = {}
    result = lifted.graph.graph_copy(module.graph, values)
    lifted.graph.output(result)
    first = next(node for node in lifted.graph.nodes if node.op != "placeholder")
    for number, node in enumerate(made):
        with lifted.graph.inserting_before(first):
            given = lifted.graph.placeholder(f"l_made_{number}_")
        given.meta["example_value"] = made[node]
        values[node].replace_all_uses_with(given)
        lifted.graph.erase_node(values[node])
    lifted.recompile()
    return lifted, (*arguments, *made.values())


def _values(
    module: torch.fx.GraphModule, arguments: Sequence[Any]
) -> dict[torch.fx.Node, torch.Tensor]:
    """The tensors that nodes without any input make."""
    import torch

    found: dict[torch.fx.Node, torch.Tensor] = {}

    class Watching(torch.fx.Interpreter):
        def run_node(self, node: torch.fx.Node) -> Any:
            value = super().run_node(node)
            roots = ("call_function", "call_method")
            if node.op in roots and not node.all_input_nodes and isinstance(value, torch.Tensor):
                found[node] = value.detach().clone()
            return value

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        Watching(module).run(*arguments)
    return found
