"""The step: a model's weights as a NumPy archive of float16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from benchorch.domain.artifact import Format
from benchorch.interfaces.conversion import BuildRequest, FileStep

HALVED_WEIGHTS = Format("halved_weights")
"""A kind of file that benchorch has never heard of."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HalvedWeights(FileStep):
    """Writes every weight as float16.

    Attributes:
        compressed: whether the archive is compressed too.
    """

    consumes: ClassVar[tuple[Format, ...]] = (Format.MODULE,)
    produces: ClassVar[Format] = HALVED_WEIGHTS
    requires: ClassVar[tuple[str, ...]] = ("torch", "benchorch-halved")
    depends_on: ClassVar[tuple[str, ...]] = ()
    version: ClassVar[int] = 1

    compressed: bool = False

    @property
    def tolerance_ratio(self) -> float:
        """Ten bits of mantissa."""
        return 5e-3

    def build(self, request: BuildRequest) -> None:
        """One file, ``weights.npz``."""
        import numpy as np

        save = np.savez_compressed if self.compressed else np.savez
        state = request.module().state_dict()
        arrays = {name: tensor.cpu().numpy().astype(np.float16) for name, tensor in state.items()}
        save(request.out_dir / "weights.npz", **arrays)
