"""The precision of a loaded module: its own where that is half, else the workload's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

CAST_FROM = "cast_from"
"""Attribute of a module that was cast: the dtypes that it had before, and the fact of that name."""

_HALVES = ("bfloat16", "float16")
_QUANTISED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")


def in_workload_dtype(module: torch.nn.Module, dtype: str) -> torch.nn.Module:
    """The module in the workload's dtype, in place; float32 leaves half precision as it is.

    float32 is what a workload has by default. A model that was saved or made in half precision is
    served in it, so nobody means another model by not naming a dtype.
    """
    import torch

    if dtype == "float32" and _holds_half(module):
        return module
    return module.to(getattr(torch, dtype))


def _holds_half(module: torch.nn.Module) -> bool:
    """Whether a parameter or a buffer is in half precision, as its code then expects."""
    held = {str(each.dtype) for each in (*module.parameters(), *module.buffers())}
    return any(f"torch.{dtype}" in held for dtype in _HALVES)


def half_precision(module: torch.nn.Module) -> str:
    """The half-precision dtype of a module's parameters, the coarsest of several; else empty."""
    held = set(parameter_dtypes(module))
    return next((dtype for dtype in _HALVES if dtype in held), "")


def parameter_dtypes(module: torch.nn.Module) -> tuple[str, ...]:
    """The floating dtypes of the parameters, sorted; of the buffers where there are no others.

    A model in half precision may keep buffers, such as frequencies, in float32. Quantised layers
    of torch.ao have no parameters and take float32.
    """
    own = {str(each.dtype) for each in module.parameters() if each.is_floating_point()}
    if not own and any(type(each).__module__.startswith(_QUANTISED) for each in module.modules()):
        return ("float32",)
    own = own or {str(each.dtype) for each in module.buffers() if each.is_floating_point()}
    return tuple(sorted(name.removeprefix("torch.") for name in own))
