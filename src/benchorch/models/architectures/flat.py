"""A transformers model with the call interface of other modules."""

import inspect
from functools import cache

from torch import Tensor, nn

from benchorch.models.architectures.nested import tensors_in

_KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD


class Flat(nn.Module):
    """Takes exactly the declared arguments, in their order, and returns a plain tuple of tensors.

    Left to itself such a model returns a mapping of its own class, whose caches and missing
    fields differ between ways of tracing; and its forward has dozens of arguments.
    """

    def __init__(self, model: nn.Module, arguments: tuple[str, ...], outputs: tuple[str, ...]):
        super().__init__()
        self.model = model
        self.arguments = arguments
        self.outputs = outputs

    def forward(self, *args: object, **kwargs: object) -> tuple[Tensor, ...]:
        """The declared outputs, or all tensors of the answer where none are declared."""
        named = dict(zip(self.arguments, args, strict=False))
        answer = self.model(**named, **kwargs, return_dict=True)
        fields = self.outputs or tuple(answer.keys())
        missing = [name for name in fields if name not in answer]
        if missing:
            raise ValueError(
                f"{type(self.model).__name__} returns no {', '.join(missing)}; "
                f"it returns {', '.join(answer.keys())}."
            )
        return tuple(tensor for name in fields for tensor in tensors_in(answer[name]))


def flat(model: nn.Module, arguments: tuple[str, ...], outputs: tuple[str, ...]) -> Flat:
    """The model behind a forward whose signature names the arguments."""
    return _class_with(arguments)(model, arguments, outputs)


@cache
def _class_with(arguments: tuple[str, ...]) -> type[Flat]:
    """A class for each set of names: export and tracing read signatures.

    Not one for each model: code that was compiled for one serves the next of the same class.
    """

    def forward(self: Flat, *args: object, **kwargs: object) -> tuple[Tensor, ...]:
        return Flat.forward(self, *args, **kwargs)

    names = [inspect.Parameter(name, _KIND) for name in ("self", *arguments)]
    forward.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    made: type[Flat] = type("Flat", (Flat,), {"forward": forward})
    return made
