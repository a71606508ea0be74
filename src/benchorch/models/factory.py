"""A user's own model: any importable callable that returns an nn.Module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError
from benchorch.models.callables import (
    UserCode,
    callable_problems,
    check_forward,
    resolve_callable,
)
from benchorch.models.declared_model import DeclaredModel
from benchorch.models.seeding import frozen, seeded
from benchorch.models.weights import load_checkpoint

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FactoryModel(DeclaredModel):
    """A module made by calling a user's function or class.

    Attributes:
        factory: ``package.module:callable``.
        arguments: keywords it is called with.
    """

    factory: str
    arguments: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def early_problems(cls, keywords: Mapping[str, Json]) -> Sequence[str]:
        """Those of the callable alone, which are known while other keys are missing."""
        factory, arguments = keywords.get("factory"), keywords.get("arguments")
        if not isinstance(factory, str) or factory == "???":
            return []
        given = arguments if isinstance(arguments, Mapping) else {}
        return callable_problems("model.factory", factory, given)

    @property
    def labels(self) -> Mapping[str, str]:
        """The file and the callable, for people."""
        return {"model": self.factory.rpartition("/")[2]}

    def load(self, seed: int) -> torch.nn.Module:
        """The factory's module; BuildError of kind user_code where it returns anything else."""
        import torch

        make = resolve_callable(self.factory)
        with UserCode(self.factory), seeded(seed):
            module = make(**self.arguments)
        if not isinstance(module, torch.nn.Module):
            raise BuildError(
                f"{self.factory} returned {type(module).__name__}, not a torch.nn.Module",
                kind="user_code",
            )
        names = [spec.name for spec in self.specs()]
        check_forward(self.factory, module, (*names, *self.kwargs))
        load_checkpoint(module, self.checkpoint)
        return frozen(module)

    def identity(self) -> Mapping[str, Json] | None:
        """None: a user's code may do anything, so the module is hashed after loading."""
        return None

    def makers(self) -> Sequence[Callable[..., object]]:
        """The factory."""
        return (resolve_callable(self.factory),)

    def problems(self, workload: Workload) -> Sequence[str]:
        """The callable, its arguments, the inputs and the checkpoint."""
        return [
            *callable_problems("model.factory", self.factory, self.arguments),
            *self.declared_problems(workload),
        ]
