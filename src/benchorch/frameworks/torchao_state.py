"""Quantised weights of torchao on disk."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING

from benchorch.errors import MeasureError
from benchorch.frameworks.upstream_errors import wrap_errors

if TYPE_CHECKING:
    import torch

STATE_FILE = "state.pt"


def save_state(module: torch.nn.Module, directory: Path) -> None:
    """Write the state dict of a quantised module."""
    import torch

    torch.save(module.state_dict(), directory / STATE_FILE)


def restore_state(module: torch.nn.Module, directory: Path) -> torch.nn.Module:
    """The module with its parameters replaced by those that `save_state` wrote.

    torch's restricted unpickler reads them (``weights_only=True``), which builds nothing but
    tensors and the classes that torchao puts on its list when it is imported: a file that names any
    other is refused, not run.
    """
    import torch

    with wrap_errors(MeasureError, "The torchao state cannot be loaded", UnpicklingError):
        # Imported, they put their tensors on torch's list.
        import torchao.prototype.quantization.int4
        import torchao.quantization  # noqa: F401

        state = torch.load(directory / STATE_FILE, weights_only=True)
        module.load_state_dict(state, assign=True)
    return module


def quantised(module: torch.nn.Module) -> list[str]:
    """The names of the parameters that are torchao's."""
    from torchao.utils import TorchAOBaseTensor

    named = module.named_parameters(remove_duplicate=False)
    return [name for name, weight in named if isinstance(weight.data, TorchAOBaseTensor)]
