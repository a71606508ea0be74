"""Digest of a tensor of any layout: dtype, shape, and the bytes of its values."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from benchorch.frameworks.tensor_parts import dense_parts

if TYPE_CHECKING:
    import torch


def tensor_digest(tensor: torch.Tensor) -> str:
    """SHA-256 (hex); other values, dtypes, shapes or orders in memory have other digests.

    ValueError where the tensor has no values to read, as one on the device ``meta``.
    """
    total = hashlib.sha256()
    _take(total, tensor)
    return total.hexdigest()


def _take(total: Any, tensor: torch.Tensor) -> None:
    import torch

    with torch.no_grad():
        total.update(f"{tensor.dtype}|{tuple(tensor.shape)}|{tensor.layout}|".encode())
        if hasattr(tensor, "__tensor_flatten__"):
            _take_parts(total, tensor)
        elif tensor.is_meta:
            raise ValueError("a tensor on the device meta has no values")
        elif tensor.is_quantized:
            _take_quantised(total, tensor)
        elif tensor.layout is not torch.strided:
            ordered = tensor.coalesce() if tensor.layout is torch.sparse_coo else tensor
            for part in dense_parts(ordered):
                _take(total, part)
        else:
            if not tensor.is_contiguous():
                total.update(f"{tensor.stride()}|".encode())
            _take_plain(total, tensor)


def _take_parts(total: Any, tensor: Any) -> None:
    """Add the parts of a composite tensor, as torchao's are."""
    names, context = tensor.__tensor_flatten__()
    total.update(f"{type(tensor).__qualname__}|{context!r}|".encode())
    for name in names:
        total.update(f"{name}|".encode())
        _take(total, getattr(tensor, name))


def _take_quantised(total: Any, tensor: torch.Tensor) -> None:
    import torch

    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        total.update(f"{tensor.q_scale()}|{tensor.q_zero_point()}|".encode())
    else:
        total.update(f"{tensor.q_per_channel_axis()}|".encode())
        _take_plain(total, tensor.q_per_channel_scales())
        _take_plain(total, tensor.q_per_channel_zero_points())
    _take_plain(total, tensor.int_repr())


def _take_plain(total: Any, tensor: torch.Tensor) -> None:
    import torch

    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    total.update(plain.reshape(-1).view(torch.uint8).numpy().data)
