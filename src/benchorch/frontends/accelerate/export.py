"""Export of a captured graph as a program, checked against the graph's outputs."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from benchorch.errors import summary_of
from benchorch.frontends.accelerate.arguments import (
    NUMBER,
    CallArguments,
    NotExportable,
    is_item,
    placeholders,
)
from benchorch.results.parity.judge import parity

if TYPE_CHECKING:
    import torch

AGREES_RATIO = 1e-4
"""How far the exported graph's answers may be from those that the program got."""


def exported(
    module: torch.fx.GraphModule, given: CallArguments, *, dynamic: bool
) -> torch.export.ExportedProgram:
    """The graph as a program of its named tensors; NotExportable where torch.export refuses."""
    import torch

    auto, sizes = torch.export.Dim.AUTO, given.open_sizes()
    shapes = {name: dict.fromkeys(sizes.get(name, ()), auto) for name in given.tensors}
    open_shapes = shapes if dynamic else None
    try:
        return torch.export.export(
            _as_module(module, given), (), given.copies(), dynamic_shapes=open_shapes
        )
    except Exception as error:
        raise NotExportable(f"torch.export refuses it: {summary_of(error)}") from error


def _as_module(module: torch.fx.GraphModule, given: CallArguments) -> torch.nn.Module:
    """The graph with its weights inside, called by its tensors' names, answering tensors only."""
    import torch

    class Segment(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.graph_module = _with_numbers(module, given)
            for name, tensor in given.weights.items():
                self.register_buffer(name, tensor.detach().cpu())

        def forward(self, **named: torch.Tensor) -> tuple[torch.Tensor, ...]:
            weights = {name: getattr(self, name) for name in given.weights}
            outputs = self.graph_module(*given.again(weights, named))
            return tuple(each for each in outputs if isinstance(each, torch.Tensor))

    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [inspect.Parameter(name, keyword) for name in ("self", *given.tensors)]
    Segment.forward.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    return Segment()


def _with_numbers(module: torch.fx.GraphModule, given: CallArguments) -> torch.fx.GraphModule:
    """The graph with the floats inside that Dynamo hands over as tensors of one number."""
    import torch

    whole = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    values = [value[0] if kind == NUMBER else None for kind, value in given.slots]
    for node, value in zip(placeholders(whole), values, strict=True):
        for item in [user for user in node.users if is_item(user) and isinstance(value, float)]:
            for user in list(item.users):
                user.args = torch.fx.map_arg(user.args, _instead(item, value))
                user.kwargs = torch.fx.map_arg(user.kwargs, _instead(item, value))
            whole.graph.erase_node(item)
    whole.recompile()
    return whole


def _instead(node: torch.fx.Node, value: Any) -> Callable[[torch.fx.Node], Any]:
    return lambda each: value if each is node else each


def takes(program: torch.export.ExportedProgram, given: CallArguments) -> bool:
    """Whether a program exported from another call accepts this one's shapes."""
    try:
        program.module()(**given.copies())
    except (AssertionError, RuntimeError, ValueError):
        return False
    return True


def check_same(
    program: torch.export.ExportedProgram, given: CallArguments, outputs: Sequence[Any]
) -> None:
    """NotExportable where the exported graph is no function or differs from the captured one."""
    import torch

    module = program.module()
    tensors, again = given.copies(), given.copies()
    state = list(module.state_dict().values())
    inputs_before, state_before = _versions(tensors.values()), _versions(state)
    with torch.random.fork_rng(devices=[]):
        answers = _answers(module(**tensors))
        if _versions(tensors.values()) != inputs_before:
            raise NotExportable(
                "it changes what it is called with, so that each call would see another"
            )
        if _versions(state) != state_before:
            raise NotExportable(
                "it changes the model's own state, as in training mode; call .eval() first"
            )
        if not answers:
            raise NotExportable("it answers no tensor")
        if not parity([_answers(module(**again))], [answers], AGREES_RATIO).passed:
            raise NotExportable(
                "it draws random numbers, as dropout in training mode; call .eval() first"
            )
    reference = _answers([each for each in outputs if isinstance(each, torch.Tensor)])
    verdict = parity([answers], [reference], AGREES_RATIO)
    if not verdict.passed:
        raise NotExportable(f"exported, it answers otherwise than here: {verdict.explanation}")


def _versions(tensors: Iterable[torch.Tensor]) -> list[int]:
    """Version counter of each tensor."""
    return [0 if each.is_inference() else each._version for each in tensors]


def _answers(outputs: Any) -> dict[str, Any]:
    return {f"{i}": _numbers(each) for i, each in enumerate(outputs)}


def _numbers(tensor: torch.Tensor) -> Any:
    import torch

    whole = tensor.detach().cpu()
    return (whole.float() if whole.dtype is torch.bfloat16 else whole).numpy()
