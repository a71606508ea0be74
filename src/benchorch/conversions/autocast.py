"""Automatic mixed precision: each operator is cast to half precision where that is safe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example
from benchorch.frameworks.torch_tracing import take_signature
from benchorch.interfaces.conversion import HALF_PRECISION_RATIOS, ModuleStep, by_option

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Autocast(ModuleStep):
    """Weights stay in float32; products are computed in half precision, sums and norms are not.

    The module is wrapped in one that calls it under `torch.autocast`, so that compilers and
    exporters see the casts as part of the model.

    Args:
        dtype: of the operators that are safe in it.
    """

    consumes = (Format.MODULE,)
    produces = Format.MODULE
    tolerance_ratio = by_option("dtype", HALF_PRECISION_RATIOS)

    dtype: Literal["bfloat16", "float16"]

    @property
    def requested_precision(self) -> str:
        """The dtype."""
        return self.dtype

    def transform(self, module: torch.nn.Module, example: Example) -> torch.nn.Module:
        """A module of the same signature around this one."""
        return _wrapped(module, self.dtype)


def _wrapped(module: torch.nn.Module, dtype: str) -> torch.nn.Module:
    import torch

    cast_to = getattr(torch, dtype)

    class UnderAutocast(torch.nn.Module):
        autocast_dtype = dtype

        def __init__(self) -> None:
            super().__init__()
            self.model = module

        def forward(self, *args: object, **kwargs: object) -> object:
            tensors = (each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor))
            device = next(tensors).device.type
            # Its cache of cast weights would outlive a trace.
            with torch.autocast(device, cast_to, cache_enabled=False):
                return self.model(*args, **kwargs)

    take_signature(UnderAutocast.forward, module)
    return UnderAutocast().train(module.training)
