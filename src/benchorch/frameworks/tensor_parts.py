"""Dense tensors that one of any layout consists of, and their size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def dense_parts(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """The tensor itself, or the indices and values of a sparse one."""
    import torch

    layout = tensor.layout
    if layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()  # the public ones refuse what is not coalesced
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor,)


def stored_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Size of the values, and of the indices of sparse ones."""
    return sum(part.nbytes for tensor in tensors for part in dense_parts(tensor))


def state_bytes(module: torch.nn.Module) -> int:
    """Size of a module's parameters and buffers."""
    return stored_bytes((*module.parameters(), *module.buffers()))
