"""Fingerprint of a live module: weights, structure and the code of its classes.

Used where only loading can tell what a model is, as with a user's own factory.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.domain.artifact import digest_of
from benchorch.domain.codec import Json

if TYPE_CHECKING:
    import torch

# Its code is told by its version, which enters every BuildKey by itself.
_OWN_PACKAGES = ("benchorch", "hydra_plugins", "__main__")


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
        "code": {name: _file_digest(path) for name, path in sorted(_sources().items())},
    }


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _settings(module: torch.nn.Module) -> dict[str, Json]:
    """The module's own attributes, such as a dropout's probability or an activation."""
    import torch

    machinery = vars(torch.nn.Module())  # parameters, hooks, ...: looked at elsewhere
    own = {name: value for name, value in vars(module).items() if name not in machinery}
    return {name: _spelled(value) for name, value in own.items()}


def _spelled(value: object) -> Json:
    """A value as text that is the same in every process."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, Mapping):
        return {str(key): _spelled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(item) for item in value]
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"


def _sources() -> dict[str, Path]:
    """The user's own code loaded by now: every package that no installer put where it is.

    A module counts with its package: what torch generates while it compiles is torch's.
    """
    installed = [Path(path).resolve() for path in sysconfig.get_paths().values()]
    files = {}
    for name in list(sys.modules):
        package = name.partition(".")[0]
        path, root = _file_of(name), _file_of(package)
        if package in _OWN_PACKAGES or path.suffix != ".py" or not path.is_file():
            continue
        if not any(file.is_relative_to(place) for file in (path, root) for place in installed):
            files[name] = path
    return files


def _file_of(name: str) -> Path:
    return Path(getattr(sys.modules.get(name), "__file__", None) or "").resolve()


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
