"""Arguments of a graph: named tensors, weights and numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchorch.errors import ConfigError
from benchorch.frontends.accelerate.capture import is_weight
from benchorch.frontends.api.live_model import OPTIONS, named_arrays

if TYPE_CHECKING:
    import torch

    from benchorch.domain.tensors import Arrays

TENSOR, WEIGHT, NUMBER = "tensor", "weight", "number"
_NAME = re.compile(r"^[lg]_(self_)?(\w+?)_$")
_RESERVED = (*OPTIONS, "self")
_DTYPES = ("torch.float64", "torch.float32", "torch.float16", "torch.bfloat16")


class NotExportable(Exception):
    """Reason why a call of a graph cannot be repeated elsewhere, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallArguments:
    """The arguments of one call of a graph, sorted.

    Attributes:
        tensors: by name, in the graph's order.
        weights: parameters and buffers, by names of their own.
        slots: what each argument is: its kind, with its name, or for a number the value and the
            symbol that stands for it.
        shapes: of each tensor as the graph has them, in which a symbol is an open size.
    """

    tensors: dict[str, torch.Tensor]
    weights: dict[str, torch.Tensor]
    slots: list[tuple[str, Any]]
    shapes: dict[str, Sequence[Any]]

    @classmethod
    def of(cls, module: torch.fx.GraphModule, given: Sequence[Any]) -> CallArguments:
        """Classify a call's arguments; NotExportable where one cannot be written to a file."""
        import torch

        sorted_ = cls(tensors={}, weights={}, slots=[], shapes={})
        for node, argument in zip(placeholders(module), given, strict=True):
            if isinstance(argument, torch.Tensor) and is_float(node, argument):
                sorted_.slots.append((NUMBER, (argument.item(), "")))
            elif isinstance(argument, torch.Tensor):
                sorted_._add_tensor(node, argument)
            elif isinstance(argument, bool | int | float):
                symbol = str(node.meta.get("example_value"))
                sorted_.slots.append((NUMBER, (argument, symbol)))
            else:
                kind = type(argument).__name__
                raise NotExportable(f"it takes a {kind}, which is no tensor and no number")
        return sorted_

    def _add_tensor(self, node: torch.fx.Node, tensor: torch.Tensor) -> None:
        if is_weight(tensor):
            name = f"weight_{len(self.weights)}"
            self.weights[name] = tensor
            self.slots.append((WEIGHT, name))
            return
        name = _readable(node.name, self.tensors)
        self.tensors[name] = tensor
        self.shapes[name] = getattr(node.meta.get("example_value"), "shape", ())
        self.slots.append((TENSOR, name))

    def copies(self) -> dict[str, torch.Tensor]:
        """The tensors on the CPU, for a call that may change them."""
        return {name: each.cpu().clone() for name, each in self.tensors.items()}

    def arrays(self) -> Arrays:
        """The tensors as they are written; NotExportable with every one that cannot be."""
        if not self.tensors:
            raise NotExportable("it takes no tensor, and makes none that it could be given")
        odd = [name for name, each in self.tensors.items() if not _is_plain(each)]
        if odd:
            raise NotExportable(
                f"{odd[0]} is a {type(self.tensors[odd[0]]).__name__}, not a plain tensor"
            )
        try:
            return named_arrays(self.tensors, None)
        except ConfigError as error:
            raise NotExportable(
                "; ".join(problem.rstrip(".") for problem in error.problems)
            ) from error

    def dtype(self, module: torch.fx.GraphModule) -> str:
        """The workload's dtype; NotExportable where weights differ or theirs is not supported.

        Weights in bfloat16 stay so under the default one, as those of every other model do.
        """
        held = [*self.weights.values(), *module.state_dict().values()]
        dtypes = sorted({str(each.dtype) for each in held if each.is_floating_point()})
        if len(dtypes) > 1:
            raise NotExportable(f"its weights are of several precisions: {', '.join(dtypes)}")
        if dtypes and dtypes[0] not in _DTYPES:
            raise NotExportable(
                f"its weights are {dtypes[0]}; those that can travel: {', '.join(_DTYPES)}"
            )
        found = dtypes[0].removeprefix("torch.") if dtypes else "float32"
        return "float32" if found == "bfloat16" else found

    def constants(self) -> tuple[object, ...]:
        """The plain numbers that are not the size of a tensor."""
        sizes = self._sizes()
        return tuple(
            value for kind, value in self.slots if kind == "number" and value[1] not in sizes
        )

    def open_sizes(self) -> dict[str, list[int]]:
        """Of each tensor the dimensions whose size the graph leaves open."""
        return {
            name: found
            for name, shape in self.shapes.items()
            if (found := [i for i, size in enumerate(shape) if not isinstance(size, int)])
        }

    def _sizes(self) -> dict[str, tuple[str, int]]:
        """Each symbol, with a tensor and the dimension that has this size."""
        return {
            str(shape[i]): (name, i)
            for name, places in self.open_sizes().items()
            for shape in [self.shapes[name]]
            for i in places
        }

    def again(self, weights: Mapping[str, Any], named: Mapping[str, Any]) -> list[Any]:
        """Arguments for a call of the graph."""
        sizes = self._sizes()
        found: list[Any] = []
        for kind, value in self.slots:
            if kind == NUMBER:
                name, dimension = sizes.get(value[1], ("", 0))
                found.append(named[name].shape[dimension] if name else value[0])
            else:
                found.append((weights if kind == WEIGHT else named)[value])
        return found


def _is_plain(tensor: torch.Tensor) -> bool:
    import torch

    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def _readable(name: str, taken: Mapping[str, object]) -> str:
    """``x`` of Dynamo's ``l_x_``, made distinct."""
    found = _NAME.match(name.lower())
    short = found[2] if found and found[2].isidentifier() else name
    if short in taken or short in _RESERVED:
        short = name
    return short if short not in taken else f"{name}_{len(taken)}"


def placeholders(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """Placeholder nodes of the arguments, in order."""
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def is_item(node: torch.fx.Node) -> bool:
    """Whether a tensor of one number becomes that number."""
    return node.op == "call_method" and node.target == "item"


def is_float(node: torch.fx.Node, argument: torch.Tensor) -> bool:
    """Whether Dynamo made a tensor of a Python float."""
    import torch

    number = argument.dtype is torch.float64 and argument.ndim == 0
    return number and bool(node.users) and all(map(is_item, node.users))
