"""A cast of a module's weights to half precision, or from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Example
from benchorch.frameworks.module_precision import CAST_FROM, in_dtype, parameter_dtypes
from benchorch.interfaces.conversion import HALF_PRECISION_RATIOS, SAME_ARITHMETIC_RATIO, ModuleStep

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cast(ModuleStep):
    """Every floating parameter and buffer in one dtype; not autocast, which casts per operator.

    Runtimes cast floating inputs to the module's dtype and report outputs in float32. Complex
    tensors stay complex: complex64 with float32, and as they are with half precision. Weights in
    float8 stay in it.

    Args:
        dtype: of the weights and of what is computed.
    """

    consumes = (Format.MODULE,)
    produces = Format.MODULE
    version = 2  # 2: complex tensors keep their imaginary parts

    dtype: Literal["bfloat16", "float16", "float32"]

    @property
    def tolerance_ratio(self) -> float:
        """Error of rounding every value to 8 or 11 bits; a baseline in those has its own."""
        return HALF_PRECISION_RATIOS.get(self.dtype, SAME_ARITHMETIC_RATIO)

    @property
    def requested_precision(self) -> str:
        """The dtype."""
        return self.dtype

    def without_effect(self, facts: Mapping[str, Json], device: str) -> str | None:
        """A model without floating parameters has nothing to cast."""
        if facts.get(CAST_FROM) == self.dtype:
            return f"the model was in {self.dtype} already"
        if facts.get("floating_tensors") == 0:
            return f"the model has no floating-point parameter or buffer to cast to {self.dtype}"
        return None

    def transform(self, module: torch.nn.Module, example: Example) -> torch.nn.Module:
        """The same module, cast in place."""
        found = "+".join(parameter_dtypes(module))
        module = in_dtype(module, self.dtype)
        setattr(module, CAST_FROM, found)  # the facts of whoever runs the module read it
        return module
