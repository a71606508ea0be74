"""A cast of a module's weights to half precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example
from benchorch.interfaces.conversion import HALF_PRECISION_RATIOS, ModuleStep

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cast(ModuleStep):
    """Every floating parameter and buffer in one dtype; not autocast, which casts per operator.

    Runtimes cast floating inputs to the module's dtype and report outputs in float32.

    Args:
        dtype: of the weights and of what is computed.
    """

    consumes = (Format.MODULE,)
    produces = Format.MODULE

    dtype: Literal["bfloat16", "float16"]

    @property
    def tolerance_ratio(self) -> float:
        """Error of rounding every value to 8 or 11 bits."""
        return HALF_PRECISION_RATIOS[self.dtype]

    def transform(self, module: torch.nn.Module, example: Example) -> torch.nn.Module:
        """The same module, cast in place."""
        import torch

        return module.to(getattr(torch, self.dtype))
