"""A module with weights that are some float32 epsilons away from its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_EPSILONS = 8.0
_DRAWS = 2
_SEED = 0

NEAR_DRAWS = 2 * _DRAWS
"""How many modules there are: each direction is taken forwards and backwards, so that of two
nearly equal scores either one is the larger in some."""


def near_modules(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The module itself, each time with other float32 weights; none where it has no such.

    Args:
        module: a copy, which is changed.
    """
    import torch

    own = [each for each in module.parameters() if each.dtype == torch.float32]
    if not own:
        return
    weights = [each.detach().clone() for each in own]
    step = _EPSILONS * torch.finfo(torch.float32).eps
    for draw in range(_DRAWS):
        for sign in (1, -1):
            generator = torch.Generator().manual_seed(_SEED + draw)
            with torch.no_grad():
                for parameter, weight in zip(own, weights, strict=True):
                    noise = torch.randn(weight.shape, generator=generator)
                    parameter.copy_(weight * (1 + sign * step * noise))
            yield module
