"""Seeding of all global generators, which get their old state back."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_NUMPY_LARGEST_SEED = 2**32 - 1


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Every global generator that is loaded starts from the seed, and gets its old state back."""
    with ExitStack() as undo:
        undo.callback(random.setstate, random.getstate())
        random.seed(seed)
        if "numpy" in sys.modules:
            _seed_numpy(seed, undo)
        if torch := sys.modules.get("torch"):
            _seed_torch(torch, seed, undo)
        yield


def _seed_numpy(seed: int, undo: ExitStack) -> None:
    """The legacy generator: a user's code may still draw from it."""
    from numpy import random as numpy_random

    undo.callback(numpy_random.set_state, numpy_random.get_state())  # noqa: NPY002 see docstring
    numpy_random.seed(seed % (_NUMPY_LARGEST_SEED + 1))  # noqa: NPY002 see docstring


def _seed_torch(torch: Any, seed: int, undo: ExitStack) -> None:
    # Forking a device's generator would initialise the device: fork only those already in use.
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    undo.enter_context(torch.random.fork_rng(devices=devices))
    torch.manual_seed(seed)


def uncompiled(made: Any) -> Any:
    """A module as it was before torch.compile, which is a conversion; anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(made, torch.nn.Module):
        made = getattr(made, "_orig_mod", made)
        for part in made.modules():
            vars(part).pop("_compiled_call_impl", None)  # of Module.compile
    return made


def frozen(module: torch.nn.Module) -> torch.nn.Module:
    """The same module as it is served: on the CPU, in eval mode, without gradients."""
    module.to("cpu")  # in place: a class's own `to`, `train` and `eval` may return nothing
    try:
        module.eval()
    except NotImplementedError:  # an exported program has no other mode than its own
        for part in module.modules():
            part.training = False
    for parameter in module.parameters():  # a ScriptModule has no requires_grad_
        parameter.requires_grad_(False)
    return module
