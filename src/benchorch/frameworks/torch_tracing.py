"""Arguments for tracers, in which open sizes are not mistaken for constants."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, Any

from benchorch.domain.codec import Json
from benchorch.domain.outputs import Outputs
from benchorch.domain.tensors import Array, Example
from benchorch.frameworks.output_paths import plain, returned
from benchorch.frameworks.torch_call import know_dataclasses, live_tensors

if TYPE_CHECKING:
    import torch


def traceable(example: Example) -> dict[str, Array]:
    """The example's arrays, their open sizes at least 2: tracers take 0 and 1 for constants."""
    arrays = dict(example.arrays)
    for name, axes in open_axes(example).items():
        for axis in axes:
            if arrays[name].shape[axis] == 1:
                arrays[name] = arrays[name].repeat(2, axis)
    return arrays


def traced_arguments(module: torch.nn.Module, example: Example) -> dict[str, Any]:
    """Keyword arguments for a tracer; torch can flatten what the module returns for them."""
    import torch

    arguments = {**live_tensors(module, traceable(example), "cpu"), **example.keywords}
    with torch.no_grad():
        know_dataclasses(module(**arguments))
    return arguments


def export_module(
    module: torch.nn.Module, example: Example, *, strict: bool
) -> torch.export.ExportedProgram:
    """A module as torch.export traces it, the example's dynamic sizes open."""
    import torch

    return torch.export.export(
        module,
        (),
        kwargs=traced_arguments(module, example),
        dynamic_shapes=open_shapes(example),
        strict=strict,
    )


def traced_outputs(raw: object, example: Example) -> Outputs:
    """Outputs of the module in the example's call; any number may depend on a dynamic size."""
    found = returned(plain(raw))
    sizes = [path for path, each in found.constants.items() if type(each) in (int, float)]
    return replace(found, unknown=(*found.unknown, *sizes)) if example.dynamic else found


def open_shapes(example: Example) -> dict[str, dict[int, object] | None] | None:
    """``dynamic_shapes`` for torch's exporters, by keyword; None where every size is fixed."""
    from torch.export import Dim

    if not example.dynamic:
        return None
    axes = open_axes(example)
    shapes: dict[str, dict[int, object] | None] = dict.fromkeys(example.keywords)
    return shapes | {name: dict.fromkeys(axes[name], Dim.DYNAMIC) for name in example.arrays}


def open_axes(example: Example) -> Mapping[str, tuple[int, ...]]:
    """Which axes of each input have a symbol that must stay open."""
    return {
        spec.name: tuple(i for i, size in enumerate(spec.shape) if size in example.dynamic)
        for spec in example.specs
    }


def tensor_places(raw: object) -> list[bool]:
    """Which outputs are tensors; a trace would make one of every size that is returned."""
    import torch
    from torch.utils import _pytree

    return [isinstance(leaf, torch.Tensor) for leaf in _pytree.tree_leaves(plain(raw))]


def positional(
    module: torch.nn.Module,
    names: tuple[str, ...],
    keywords: Mapping[str, Json],
    places: Sequence[bool],
) -> torch.nn.Module:
    """The module with positional tensors in and a flat tuple out: all that a trace can hold."""
    import torch
    from torch.utils import _pytree

    class Positional(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = module

        def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            named = dict(zip(names, tensors, strict=True))
            leaves = _pytree.tree_leaves(plain(self.model(**named, **keywords)))
            return tuple(compress(leaves, places))

    made = Positional()
    made.training = module.training  # an exported module inside does not let its mode be set
    return made


def take_signature(forward: Callable[..., object], module: torch.nn.Module) -> None:
    """Give a wrapper's forward the names of the inputs, which tracers read from its signature."""
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(module.forward).parameters.values()
    forward.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]
