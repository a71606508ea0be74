"""Base of all models: inputs, plain arguments and a checkpoint, as a YAML declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from benchorch.domain.codec import Json, encode
from benchorch.domain.tensors import Arrays, TensorSpec, Workload
from benchorch.errors import ConfigError
from benchorch.interfaces.model import Model
from benchorch.models import trust
from benchorch.models.inputs import input_set, keyword_problems
from benchorch.models.weights import checkpoint_identity, checkpoint_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredModel(Model):
    """A model that is called with declared inputs.

    Attributes:
        inputs: the tensors of forward, in its order.
        checkpoint: a file with the state dict, or None for the weights the model makes itself.
        kwargs: arguments of forward that are not tensors.
    """

    inputs: Mapping[str, Json]
    checkpoint: str | None = None
    kwargs: Mapping[str, Json] = field(default_factory=dict)

    def specs(self) -> tuple[TensorSpec, ...]:
        """The tensors, in the order of the YAML."""
        return input_set(self.inputs).specs()

    def input_names(self) -> Sequence[str]:
        """Names of the tensors; empty where problems of their own leave them unknown."""
        try:
            return [spec.name for spec in self.specs()]
        except (OSError, ValueError, ConfigError):
            return ()

    def batch(self, workload: Workload, seed: int) -> Arrays:
        """One set of input arrays."""
        return input_set(self.inputs).batch(workload, seed)

    def keywords(self) -> Mapping[str, Json]:
        """Declared keyword arguments."""
        return self.kwargs

    def identity(self) -> Mapping[str, Json] | None:
        """The class, its own options, the checkpoint's digest and the releases of its packages."""
        from benchorch.frameworks.identity.distributions import installed

        return {
            **self.requested(),
            **checkpoint_identity(self.checkpoint),
            "packages": dict(installed(self.requires)),
        }

    def requested(self) -> Mapping[str, Json]:
        """The class and its own options; not its name for people, nor where a file of code is."""
        shared = {"labels", *(each.name for each in fields(DeclaredModel))}
        own = [each.name for each in fields(self) if each.name not in shared]
        return {
            "class": f"{type(self).__module__}.{type(self).__qualname__}",
            "version": self.version,
            **{name: _without_folder(encode(getattr(self, name))) for name in own},
        }

    def declared_problems(self, workload: Workload) -> Sequence[str]:
        """Problems of the inputs, the checkpoint and the plain arguments."""
        return [
            *input_set(self.inputs).problems(workload),
            *checkpoint_problems(self.checkpoint),
            *keyword_problems(self.inputs, self.kwargs),
        ]


def _without_folder(option: Json) -> Json:
    """A reference to a file's callable by the file's name; any other option as it is."""
    in_file = trust.IN_FILE.fullmatch(option) if isinstance(option, str) else None
    return f"{Path(in_file[1]).name}:{in_file[2]}" if in_file else option
