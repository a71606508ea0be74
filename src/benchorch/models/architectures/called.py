"""A module that is called as a script called it, whatever it was given."""

import inspect
from contextlib import suppress
from typing import Any, Self

import torch.fx
from torch import Tensor, nn

from benchorch.models.architectures.nested import tensors_in
from benchorch.models.script_inputs import CapturedArguments, fill

_KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD


class Called(nn.Module):
    """Takes the call's tensors by name; all else is as it was in the script."""

    def __init__(self, model: nn.Module, arguments: CapturedArguments, autocast: str) -> None:
        super().__init__()
        self.autocast = getattr(torch, autocast) if autocast else None
        self.model = model
        self.arguments = arguments
        self.names = tuple(arguments.tensors)

    def train(self, mode: bool = True) -> Self:
        """Set the module's mode; ignored by an exported program, whose mode is fixed."""
        with suppress(NotImplementedError):
            super().train(mode)
        return self

    def forward(self, *args: Tensor, **kwargs: Tensor) -> object:
        """Result of the module; from an object of its own class, the tensors."""
        tensors = {**dict(zip(self.names, args, strict=False)), **kwargs}
        positional, named = fill(self.arguments, tensors)
        if self.autocast is None:
            answer = self.model(*positional, **named)
        else:
            with torch.autocast(self._device(), dtype=self.autocast):
                answer = self.model(*positional, **named)
        return answer if _is_plain(answer) else tuple(tensors_in(answer))

    def _device(self) -> str:
        return next((each.device.type for each in self.parameters()), "cpu")


def called(model: nn.Module, arguments: CapturedArguments, autocast: str = "") -> Called:
    """The module behind a forward whose signature names the call's tensors.

    Export and tracing read signatures, so each set of names needs a class of its own.

    Args:
        model: as the script made it.
        arguments: of the call.
        autocast: the dtype of the region it was made in; "" for none.
    """

    def forward(self: Called, *args: Tensor, **kwargs: Tensor) -> object:
        return Called.forward(self, *args, **kwargs)

    names = [inspect.Parameter(name, _KIND) for name in ("self", *arguments.tensors)]
    forward.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    made: type[Called] = type("Called", (Called,), {"forward": forward})
    return made(model, arguments, autocast)


def goes_by_name(module: nn.Module, arguments: CapturedArguments, answer: object) -> bool:
    """Whether the module accepts its inputs by keyword and exporters support it."""
    live = not isinstance(module, torch.jit.ScriptModule | torch.fx.GraphModule)
    usual = type(module).__call__ is nn.Module.__call__
    return live and usual and arguments.keywords is not None and _is_plain(answer)


def _is_plain(answer: Any) -> bool:
    """Whether exporters support the result: tensors, possibly in Python's own containers."""
    if isinstance(answer, Tensor):
        return True
    if type(answer) is dict:
        return all(_is_plain(item) for item in answer.values())
    return type(answer) in (tuple, list) and all(_is_plain(item) for item in answer)
