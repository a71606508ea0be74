"""A user's own model: any importable callable that returns an nn.Module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import TensorSpec, Workload
from benchorch.errors import BuildError
from benchorch.interfaces.model import Model
from benchorch.models.callables import UserCode, callable_problems, resolve_callable
from benchorch.models.inputs import input_set, keyword_problems
from benchorch.models.seeding import frozen, seeded
from benchorch.models.weights import checkpoint_problems, load_checkpoint

if TYPE_CHECKING:
    import torch
    from numpy import generic
    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FactoryModel(Model):
    """A module made by calling a user's function or class.

    Attributes:
        factory: ``package.module:callable``.
        arguments: keywords it is called with.
        inputs: the tensors of the module's forward, in its order.
        checkpoint: a file with the weights, or None for those the factory gives.
        kwargs: arguments of forward that are not tensors.
    """

    factory: str
    inputs: Mapping[str, Json]
    arguments: Mapping[str, Json] = field(default_factory=dict)
    checkpoint: str | None = None
    kwargs: Mapping[str, Json] = field(default_factory=dict)

    requires: ClassVar[tuple[str, ...]] = ("torch",)
    version: ClassVar[int] = 1

    def load(self, seed: int) -> torch.nn.Module:
        """What the factory returns; BuildError of kind user_code where that is no module."""
        import torch

        make = resolve_callable(self.factory)
        with UserCode(self.factory), seeded(seed):
            module = make(**self.arguments)
        if not isinstance(module, torch.nn.Module):
            raise BuildError(
                f"{self.factory} returned {type(module).__name__}, not a torch.nn.Module",
                kind="user_code",
            )
        load_checkpoint(module, self.checkpoint)
        return frozen(module)

    def specs(self) -> tuple[TensorSpec, ...]:
        """As declared; nothing is known of the module."""
        return input_set(self.inputs).specs()

    def batch(self, workload: Workload, seed: int) -> Mapping[str, NDArray[generic]]:
        """One set of arrays."""
        return input_set(self.inputs).batch(workload, seed)

    def keywords(self) -> Mapping[str, Json]:
        """As declared."""
        return self.kwargs

    def identity(self) -> Mapping[str, Json] | None:
        """None: a user's code may do anything, so the module is hashed after loading."""
        return None

    def problems(self, workload: Workload) -> Sequence[str]:
        """The callable, its arguments, the inputs and the checkpoint."""
        return [
            *callable_problems("model.factory", self.factory, self.arguments),
            *input_set(self.inputs).problems(workload),
            *checkpoint_problems(self.checkpoint),
            *keyword_problems(self.inputs, self.kwargs),
        ]
