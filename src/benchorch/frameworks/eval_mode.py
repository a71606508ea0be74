"""A module as it is served, for the time that it is looked at."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@contextmanager
def served(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The module in eval mode on the CPU, a copy where it is elsewhere; its modes come back.

    Its own ``train`` and ``eval`` are not called: what they change besides, such as weights that
    are merged, would not come back.
    """
    tensors = (*module.parameters(), *module.buffers())
    served = module
    if any(each.device.type != "cpu" for each in tensors):
        served = copy.deepcopy(module).to("cpu")
    # One that is scripted and frozen has none: it can only be in eval mode.
    modes = [(part, part.training) for part in served.modules() if hasattr(part, "training")]
    for part, _ in modes:
        part.training = False
    try:
        yield served
    finally:
        for part, training in modes:
            part.training = training
