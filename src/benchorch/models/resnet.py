"""Residual networks for images, without torchvision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

from benchorch.domain.tensors import Workload
from benchorch.models.declared_model import DeclaredModel
from benchorch.models.seeding import frozen, seeded
from benchorch.models.weights import load_checkpoint

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ResNet(DeclaredModel):
    """ResNet with torchvision's structure and names: its checkpoints load.

    Attributes:
        depth: how many layers.
        classes: how many scores come out.
        inputs: one tensor, named ``x``, of shape (batch, 3, height, width).
    """

    depth: Literal[18, 34, 50, 101, 152]
    classes: int = 1000

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

    def problems(self, workload: Workload) -> Sequence[str]:
        """Inputs, checkpoint, and whether the images have three channels."""
        return self.declared_problems(workload) or self._shape_problems(workload)

    def _shape_problems(self, workload: Workload) -> list[str]:
        specs = self.specs()
        if [spec.name for spec in specs] != ["x"]:
            names = ", ".join(spec.name for spec in specs)
            return [f"model.inputs: this model takes one tensor named 'x', got {names}."]
        shape = specs[0].resolve(workload.symbols)
        if len(shape) != 4 or shape[1] != 3:
            return [f"model.inputs.x.shape: must be [batch, 3, height, width], got {list(shape)}."]
        return []
