"""The precision of a loaded module: its own where that is half, else the workload's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

CAST_FROM = "cast_from"
"""Attribute of a module that was cast: the dtypes that it had before, and the fact of that name."""

_HALVES = ("bfloat16", "float16")
_COMPLEX = {"float64": "complex128", "float32": "complex64"}
_QUANTISED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")


def in_workload_dtype(module: torch.nn.Module, dtype: str) -> torch.nn.Module:
    """The module in the workload's dtype, in place; float32 leaves half precision as it is.

    float32 is what a workload has by default. A model that was saved or made in half precision is
    served in it, so nobody means another model by not naming a dtype.
    """
    if dtype == "float32" and _holds_half(module):
        return module
    return in_dtype(module, dtype)


def in_dtype(module: torch.nn.Module, dtype: str) -> torch.nn.Module:
    """The module with its floating tensors in one dtype, in place.

    Complex ones stay complex, of which `Module.to` drops the imaginary parts: they take the width
    of float32 and float64, and keep theirs in half precision, in which torch computes few products
    of them. Those of one byte, such as float8, stay, as the code beside them scales them.
    """
    import torch

    floating = getattr(torch, dtype)
    tensors = (*module.parameters(), *module.buffers())
    if not any(each.is_complex() or _is_narrow(each) for each in tensors):
        module.to(floating)  # as a class may have a method of its own, which may return nothing
        return module

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_complex():
            return tensor.to(getattr(torch, _COMPLEX[dtype])) if dtype in _COMPLEX else tensor
        casts = tensor.is_floating_point() and not _is_narrow(tensor)
        return tensor.to(floating) if casts else tensor

    module._apply(cast)  # type: ignore[no-untyped-call]  # torch's own
    return module


def _is_narrow(tensor: torch.Tensor) -> bool:
    """Whether it is floating point of one byte, which stores weights and computes nothing."""
    return tensor.is_floating_point() and tensor.dtype.itemsize == 1


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
    of torch.ao have no parameters and take float32. Weights in float8 are computed in another.
    """
    own = _floating(module.parameters())
    if not own and any(type(each).__module__.startswith(_QUANTISED) for each in module.modules()):
        return ("float32",)
    own = own or _floating(module.buffers())
    return tuple(sorted(name.removeprefix("torch.") for name in own))


def _floating(tensors: Iterable[torch.Tensor]) -> set[str]:
    return {str(t.dtype) for t in tensors if t.is_floating_point() and not _is_narrow(t)}
