"""A user's own model: any importable callable that returns an nn.Module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError
from benchorch.interfaces.generation import IDS
from benchorch.models.callables import (
    callable_problems,
    check_forward,
    resolve_callable,
    user_code,
)
from benchorch.models.declared_model import DeclaredModel
from benchorch.models.seeding import frozen, seeded, uncompiled
from benchorch.models.weights import load_checkpoint

if TYPE_CHECKING:
    import torch

_ROWS_AND_TOKENS = 2  # axes


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
        with user_code(self.factory), seeded(seed):
            module = uncompiled(make(**self.arguments))
        if not isinstance(module, torch.nn.Module):
            raise BuildError(
                f"{self.factory} returned {type(module).__name__}, not a torch.nn.Module",
                kind="user_code",
            )
        names = [spec.name for spec in self.specs()]
        check_forward(self.factory, module, (*names, *self.kwargs))
        load_checkpoint(module, self.checkpoint)
        return frozen(module)

    @property
    def prompt_symbol(self) -> str | None:
        """That of its tokens, of which a language model may generate more."""
        ids = next((spec for spec in self.specs() if spec.name == IDS), None)
        return str(ids.shape[1]) if ids is not None and len(ids.shape) == _ROWS_AND_TOKENS else None

    def load_step(self, seed: int) -> torch.nn.Module:
        """Its decoder on transformers' own cache; BuildError where it is no language model."""
        from benchorch.models.architectures.decoder import decoder, is_language_model

        module: Any = self.load(seed)
        if not is_language_model(module) or module.config.is_encoder_decoder:
            raise BuildError(
                f"{self.factory} returned {type(module).__name__}, no decoder of transformers, "
                "which scenario=generate needs",
                kind="user_code",
            )
        return frozen(decoder(module))

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
