"""A multilayer perceptron: the smallest model that is all matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, final

from benchorch.domain.tensors import Workload
from benchorch.models.declared_model import DeclaredModel
from benchorch.models.seeding import frozen, seeded
from benchorch.models.weights import load_checkpoint

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp(DeclaredModel):
    """Linear layers with ReLU between them.

    Attributes:
        widths: features going in, of each hidden layer, and coming out; at least two.
        inputs: one tensor, named ``input``, whose last size is ``widths[0]``.
    """

    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.widths) < 2 or min(self.widths) < 1:
            raise ValueError(
                f"widths must be at least two whole numbers above 0, got {list(self.widths)}."
            )

    def load(self, seed: int) -> torch.nn.Module:
        """The layers as one Sequential; its state dict counts them: ``0.weight``, ``2.weight``."""
        from torch import nn

        with seeded(seed):
            layers: list[nn.Module] = []
            for before, after in pairwise(self.widths):
                layers += [nn.Linear(before, after), nn.ReLU()]
            module = nn.Sequential(*layers[:-1])
        load_checkpoint(module, self.checkpoint)
        return frozen(module)

    def problems(self, workload: Workload) -> Sequence[str]:
        """Inputs, checkpoint, and whether the rows fit the first layer."""
        return self.declared_problems(workload) or self._shape_problems(workload)

    def _shape_problems(self, workload: Workload) -> list[str]:
        specs = self.specs()
        if [spec.name for spec in specs] != ["input"]:
            names = ", ".join(spec.name for spec in specs)
            return [f"model.inputs: this model takes one tensor named 'input', got {names}."]
        shape = specs[0].resolve(workload.symbols)
        if not shape or shape[-1] != self.widths[0]:
            return [
                f"model.inputs.input.shape: the last size of {list(shape)} must be "
                f"widths[0], which is {self.widths[0]}."
            ]
        return []
