"""Residual networks for images, without torchvision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import TensorSpec, Workload
from benchorch.interfaces.model import Model
from benchorch.models.inputs import input_set, keyword_problems
from benchorch.models.seeding import frozen, seeded
from benchorch.models.versions import versions
from benchorch.models.weights import checkpoint_digest, checkpoint_problems, load_checkpoint

if TYPE_CHECKING:
    import torch
    from numpy import generic
    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ResNet(Model):
    """ResNet with torchvision's structure and names: its checkpoints load.

    Attributes:
        depth: how many layers.
        classes: how many scores come out.
        inputs: one tensor, named ``x``, of shape (batch, 3, height, width).
        checkpoint: a file with the weights, or None for seeded random ones.
        kwargs: arguments of forward that are not tensors.
    """

    depth: Literal[18, 34, 50, 101, 152]
    inputs: Mapping[str, Json]
    classes: int = 1000
    checkpoint: str | None = None
    kwargs: Mapping[str, Json] = field(default_factory=dict)

    requires: ClassVar[tuple[str, ...]] = ("torch",)
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.classes < 1:
            raise ValueError(f"classes must be above 0, got {self.classes}.")

    def load(self, seed: int) -> torch.nn.Module:
        """The network."""
        from benchorch.models.architectures.resnet import resnet

        with seeded(seed):
            module = resnet(self.depth, self.classes)
        load_checkpoint(module, self.checkpoint)
        return frozen(module)

    def specs(self) -> tuple[TensorSpec, ...]:
        """The images."""
        return input_set(self.inputs).specs()

    def batch(self, workload: Workload, seed: int) -> Mapping[str, NDArray[generic]]:
        """One array of images."""
        return input_set(self.inputs).batch(workload, seed)

    def keywords(self) -> Mapping[str, Json]:
        """As declared; the network takes none."""
        return self.kwargs

    def identity(self) -> Mapping[str, Json] | None:
        """Depth, classes and what fixes the numbers in the network."""
        return {
            "class": "benchorch.models.resnet.ResNet",
            "version": self.version,
            "depth": self.depth,
            "classes": self.classes,
            "checkpoint": checkpoint_digest(self.checkpoint),
            "packages": dict(versions(self.requires)),
        }

    def problems(self, workload: Workload) -> Sequence[str]:
        """Inputs, checkpoint, and whether the images have three channels."""
        found = [
            *input_set(self.inputs).problems(workload),
            *checkpoint_problems(self.checkpoint),
            *keyword_problems(self.inputs, self.kwargs),
        ]
        return found or self._shape_problems(workload)

    def _shape_problems(self, workload: Workload) -> list[str]:
        specs = self.specs()
        if [spec.name for spec in specs] != ["x"]:
            names = ", ".join(spec.name for spec in specs)
            return [f"model.inputs: this model takes one tensor named 'x', got {names}."]
        shape = specs[0].resolve(workload.symbols)
        if len(shape) != 4 or shape[1] != 3:
            return [f"model.inputs.x.shape: must be [batch, 3, height, width], got {list(shape)}."]
        return []
