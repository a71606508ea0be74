"""Sparse tensors count by their indices and values: for size, identity and what calls change."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from benchorch.frameworks.identity.tensors import tensor_digest
from benchorch.frameworks.module_fingerprint import state_digest
from benchorch.frameworks.module_state import changes, snapshot
from benchorch.frameworks.tensor_parts import dense_parts, state_bytes

Layout = Callable[[torch.Tensor], torch.Tensor]
LAYOUTS: dict[str, Layout] = {
    "coo": torch.Tensor.to_sparse_coo,
    "csr": torch.Tensor.to_sparse_csr,
    "csc": torch.Tensor.to_sparse_csc,
    "bsr": lambda dense: dense.to_sparse_bsr((2, 2)),
    "bsc": lambda dense: dense.to_sparse_bsc((2, 2)),
}
pytestmark = [
    pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS),
    pytest.mark.filterwarnings("ignore:Sparse"),  # torch: its support is in beta
]


def module_with(tensor: torch.Tensor) -> torch.nn.Module:
    module = torch.nn.Module()
    module.register_buffer("adjacency", tensor)
    return module


def diagonal(value: float = 1.0) -> torch.Tensor:
    return torch.diag(torch.tensor([1.0, 1.0, 1.0, value]))


def test_values_and_places_decide_what_a_state_is(layout: Layout) -> None:
    same, other, moved = diagonal(), diagonal(2.0), diagonal().flip(0)
    for digest in (tensor_digest, lambda tensor: state_digest(module_with(tensor))):
        assert digest(layout(diagonal())) == digest(layout(same))
        assert len({digest(layout(each)) for each in (same, other, moved)}) == 3


def test_the_size_is_that_of_indices_and_values(layout: Layout) -> None:
    small, large = (state_bytes(module_with(layout(torch.eye(rows)))) for rows in (4, 4000))
    assert 4 * 4 < small < large < 4000 * 4000


def test_a_change_in_place_is_seen(layout: Layout) -> None:
    tensor = layout(diagonal())
    module = module_with(tensor)
    before = snapshot(module)
    assert changes(module, before, snapshot(module)) == ()
    dense_parts(tensor)[-1].mul_(2)
    assert changes(module, before, snapshot(module)) == ("buffer 'adjacency' changed",)
