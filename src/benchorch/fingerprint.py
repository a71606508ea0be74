"""What a live module is made of: weights, structure and the code of its classes.

Used where only loading can tell what a model is, as with a user's own factory.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.domain.artifact import digest_of
from benchorch.domain.codec import Json

if TYPE_CHECKING:
    import torch

# Their code is told by their version, which enters every BuildKey by itself.
_VERSIONED_PACKAGES = ("torch", "transformers", "benchorch")


def state_digest(module: torch.nn.Module) -> str:
    """SHA-256 (hex) over names, dtypes, shapes and every byte of parameters and buffers."""
    import torch

    total = hashlib.sha256()
    for name, tensor in _tensors(module):
        total.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        total.update(flat.numpy().data)
    return total.hexdigest()


def content_identity(module: torch.nn.Module) -> dict[str, Json]:
    """Everything about a live module that may change what it computes."""
    return {
        "state": state_digest(module),
        "structure": hashlib.sha256(str(module).encode()).hexdigest(),
        "settings": digest_of({name: _settings(part) for name, part in module.named_modules()}),
        "code": {name: _file_digest(path) for name, path in sorted(_sources(module).items())},
    }


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _settings(module: torch.nn.Module) -> dict[str, Json]:
    """Plain attributes such as a dropout's probability or a scale."""
    return {
        name: repr(value)
        for name, value in vars(module).items()
        if isinstance(value, bool | int | float | str | tuple) and not name.startswith("_")
    }


def _sources(module: torch.nn.Module) -> dict[str, Path]:
    """The files of the user's own classes in the module."""
    files = {}
    for part in module.modules():
        kind = type(part)
        if kind.__module__.partition(".")[0] in _VERSIONED_PACKAGES:
            continue
        try:
            files[kind.__module__] = Path(inspect.getfile(kind))
        except (TypeError, OSError):  # made at run time: its structure must speak for it
            continue
    return files


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
