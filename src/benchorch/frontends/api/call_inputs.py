"""Inputs of a live module that are more than tensors: caches, containers, numbers, text, None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchorch.errors import ConfigError, summary_of
from benchorch.frameworks.host_arrays import array_of
from benchorch.frameworks.model_caches import is_cache
from benchorch.frontends.api.live_model import (
    model_name,
    name_problems,
    named_arrays,
)
from benchorch.models.script_inputs import CapturedArguments, capture_arguments
from benchorch.models.script_watch import FirstCall, Watch

if TYPE_CHECKING:
    import torch

    from benchorch.domain.tensors import Arrays


def holds_more(sets: Sequence[Mapping[str, object]]) -> bool:
    """Whether an input is no tensor: then the call is taken as a script's would be."""
    return any(not hasattr(value, "dtype") for one in sets for value in one.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorCall:
    """A module behind a forward that takes tensors alone, and the tensors of each input set."""

    module: torch.nn.Module
    sets: tuple[Arrays, ...]
    note: str = ""


def with_tensors_alone(
    module: torch.nn.Module, sets: Sequence[Mapping[str, object]], names: Sequence[str]
) -> TensorCall:
    """The call with its tensors apart; all else stays as it was given.

    Raises:
        ConfigError: an input is of no kind that another process can get, or sets differ in it.
    """
    from benchorch.frontends.api.function_model import FunctionModule

    problems = [problem for one in sets for problem in name_problems(one, names)]
    if problems:
        raise ConfigError(problems)
    calls = [capture_arguments(module.forward, (), _as_tensors(one)) for one in sets]
    if calls[0].tensors:
        return _separated(module, calls)
    if not isinstance(module, FunctionModule):
        named_arrays(sets[0], names)  # raises, as it holds no tensor
    found = _model_inside(module, sets[0])
    called_name = model_name(found.module)
    return replace(
        _separated(found.module, [found.arguments], model_name(module)),
        note=f"Without tensors among the inputs, {called_name}, the first module that "
        f"{model_name(module)} calls, is measured, without the Python code around it.",
    )


def _separated(
    module: torch.nn.Module, calls: Sequence[CapturedArguments], name: str = ""
) -> TensorCall:
    from benchorch.models.architectures.called import called

    first = calls[0]
    problems = [f"inputs: {first.obstacle}."] if first.obstacle else []
    problems += [
        f"inputs[{at}]: differs from inputs[0] in more than the values of tensors."
        for at, each in enumerate(calls)
        if _rest(each) != _rest(first)
    ]
    if problems:
        raise ConfigError(problems)
    wrapped = called(module, first)
    type(wrapped).__name__ = name or model_name(module)
    sets = tuple({key: array_of(x) for key, x in each.tensors.items()} for each in calls)
    return TensorCall(module=wrapped, sets=sets)


def _as_tensors(inputs: Mapping[str, object]) -> dict[str, object]:
    """The inputs with tensors in the place of arrays, also inside of containers."""
    import torch
    from torch.utils import _pytree

    def convert(leaf: object) -> object:
        is_array = type(leaf).__module__ == "numpy" and hasattr(leaf, "dtype")
        return torch.as_tensor(leaf) if is_array else leaf

    return {
        name: _pytree.tree_map(convert, value, is_leaf=is_cache) for name, value in inputs.items()
    }


def _rest(arguments: CapturedArguments) -> object:
    """All but the tensors' values."""
    return arguments.positional, arguments.named


def _model_inside(function: torch.nn.Module, inputs: Mapping[str, object]) -> FirstCall:
    """The first call of a module with tensors that a function of other values makes."""
    import torch

    calls: list[FirstCall] = []
    name = model_name(function)
    try:
        with Watch(0, calls.append), torch.no_grad():
            function.forward(**inputs)
    except Exception as error:
        raise ConfigError([f"inputs: {name} raised {summary_of(error)}"]) from error
    found = next((each for each in calls if not each.arguments.obstacle), None)
    if found is None:
        raise ConfigError([f"inputs: hold no tensor, and {name} calls no module with one."])
    return found
