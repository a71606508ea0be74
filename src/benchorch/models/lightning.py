"""A LightningModule: its class, the arguments in its checkpoint, and its weights."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError
from benchorch.host.environment import is_installed
from benchorch.models.callables import (
    callable_problems,
    check_forward,
    reference_problems,
    resolve_callable,
    user_code,
)
from benchorch.models.declared_model import DeclaredModel
from benchorch.models.seeding import frozen, seeded, uncompiled
from benchorch.models.start_folder import from_start
from benchorch.models.weights import checkpoint_content, load_checkpoint

if TYPE_CHECKING:
    import torch

_PACKAGES = {"lightning": "lightning.pytorch", "pytorch-lightning": "pytorch_lightning"}
"""Distributions that have a LightningModule each, and where it is: two classes, one behaviour."""

_HYPER_PARAMETERS = "hyper_parameters"
_THEIR_NAME = "hparams_name"  # of the one argument that took them all; else "kwargs"
_INSTANTIATOR = "_instantiator"  # what LightningCLI keeps beside them; no argument of the class


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LightningModel(DeclaredModel):
    """A module that Lightning trains, called by its forward as it is outside of a Trainer.

    A checkpoint that ``Trainer`` wrote gives the arguments that ``save_hyperparameters`` kept, and
    the weights. Of it only tensors and plain values are read; nothing in it is executed.

    Attributes:
        module: ``path.py:Class`` or ``package.module:Class``.
        arguments: keywords it is made with; they win over those of the checkpoint.
    """

    module: str
    arguments: Mapping[str, Json] = field(default_factory=dict)

    requires = ("torch", next((name for name in _PACKAGES if is_installed(name)), "lightning"))
    gives = (Format.MODULE, Format.CALLABLE, Format.LIGHTNING_MODULE)

    def load(self, seed: int) -> torch.nn.Module:
        """The module with its weights; BuildError unless it is a LightningModule."""
        make = resolve_callable(self.module)
        arguments = _arguments(make, self.checkpoint, self.arguments)
        with user_code(self.module), seeded(seed):
            module: Any = uncompiled(make(**arguments))
            _check_lightning(self.module, module)
            module.configure_model()  # where large modules make their layers
        names = [spec.name for spec in self.specs()]
        check_forward(self.module, module, (*names, *self.kwargs))
        load_checkpoint(module, self.checkpoint)
        return frozen(module)

    def identity(self) -> Mapping[str, Json] | None:
        """None: a user's code may do anything, so the module is hashed after loading."""
        return None

    def makers(self) -> Sequence[Callable[..., object]]:
        """The class."""
        return (resolve_callable(self.module),)

    def problems(self, workload: Workload) -> Sequence[str]:
        """The class, its arguments where no checkpoint may add to them, inputs and checkpoint."""
        where = "model.module"
        return [
            *(
                callable_problems(where, self.module, self.arguments)
                if self.checkpoint is None
                else reference_problems(where, self.module)
            ),
            *self.declared_problems(workload),
        ]


def _arguments(
    make: Callable[..., object], checkpoint: str | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Stored arguments of a checkpoint that the class accepts, and those given instead."""
    if checkpoint is None or checkpoint.endswith(".safetensors"):
        return {**given}
    content = checkpoint_content(from_start(checkpoint))
    stored = content.get(_HYPER_PARAMETERS) if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping) or not isinstance(stored, Mapping):
        return {**given}
    kept = {str(name): value for name, value in stored.items() if name != _INSTANTIATOR}
    parameters = inspect.signature(make).parameters
    whole = content.get(_THEIR_NAME)
    if whole in parameters and whole not in kept:
        within = {name: value for name, value in given.items() if name not in parameters}
        beside = {name: value for name, value in given.items() if name in parameters}
        return {str(whole): {**kept, **within}, **beside}
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    accepted = {name: value for name, value in kept.items() if takes_any or name in parameters}
    return {**accepted, **given}


def _check_lightning(reference: str, module: object) -> None:
    """BuildError unless it is a LightningModule with a forward of its own."""
    loaded = [sys.modules[name] for name in _PACKAGES.values() if name in sys.modules]
    bases = tuple(package.LightningModule for package in loaded)
    if not isinstance(module, bases):
        raise BuildError(
            f"{reference} made a {type(module).__name__}, not a LightningModule",
            kind="user_code",
            remedy="model=factory model.factory=... takes any torch.nn.Module",
        )
    if any(type(module).forward is base.forward for base in bases):
        raise BuildError(
            f"{reference} defines no forward, which is what is measured",
            kind="user_code",
            remedy="define forward(self, ...): predict_step calls it by default",
        )
