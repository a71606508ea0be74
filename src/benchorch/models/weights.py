"""Checkpoints: checked at planning, identified by their bytes, loaded strictly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.errors import BuildError
from benchorch.files import ARCHIVE_DAMAGE, digest_once
from benchorch.formatting import first_few
from benchorch.frameworks.module_precision import in_dtype
from benchorch.models.headers import safetensors_headers
from benchorch.models.start_folder import from_start

if TYPE_CHECKING:
    import torch

_SHOWN = 5  # names of one kind in a message; the rest is counted
_KIND = "checkpoint"
_MOST_TIMES, _FREE_BYTES = 4, 2**26
_COMPILED = "_orig_mod."  # begins all names of what torch.compile returns
_FREQUENCIES = "inv_freq"  # as transformers and code that follows it call them, in float32
_COUNT = "num_batches_tracked"  # of a batch norm, which only training reads


def checkpoint_problems(checkpoint: str | None) -> list[str]:
    """Problems of a checkpoint, found without torch: existence, format, truncation."""
    if checkpoint is None:
        return []
    path = Path(checkpoint)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        return [
            f"model.checkpoint: {checkpoint!r} {what}; name a .safetensors file or a state dict."
        ]
    try:
        _check_format(path)
    except (OSError, ValueError) as error:
        return [f"model.checkpoint: {error}."]
    return []


def _check_format(path: Path) -> None:
    if path.suffix == ".safetensors":
        safetensors_headers(path)
        return
    import zipfile

    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(member.file_size for member in archive.infolist())
    except ARCHIVE_DAMAGE as error:
        raise ValueError(
            f"{path} is not a file that torch.save wrote since torch 1.6, or is cut short; "
            "save a state dict with torch.save, or a .safetensors file"
        ) from error
    if total > _MOST_TIMES * size + _FREE_BYTES:  # torch stores what it saves uncompressed
        raise ValueError(f"{path} would expand its {size} bytes to {total}")


def checkpoint_identity(checkpoint: str | None) -> dict[str, str | None]:
    """Identity of a checkpoint: its bytes, which also determine the dtype."""
    dtype = {} if checkpoint is None else {"checkpoint_dtype": "as saved, not of frequencies"}
    return {"checkpoint": checkpoint_digest(checkpoint), **dtype}


def checkpoint_digest(checkpoint: str | None) -> str | None:
    """SHA-256 (hex) of a checkpoint's bytes, read once while the file stays the same."""
    if checkpoint is None:
        return None
    try:
        return digest_once(from_start(checkpoint))
    except OSError as error:
        raise BuildError(f"the checkpoint cannot be read: {error}", kind=_KIND) from error


def load_checkpoint(module: torch.nn.Module, checkpoint: str | None) -> None:
    """Put a checkpoint's weights into a module: every one of them, and no other.

    A module in float32 takes the half precision that all floating weights were saved in.
    Frequencies of rotary embeddings that are not in the file stay: rounded, they would turn later
    tokens by whole radians.
    """
    if checkpoint is None:
        return
    import torch

    path = from_start(checkpoint)
    state = _state_dict(path, checkpoint_content(path))
    complaints = _mismatches(module, state)
    if complaints and (prefix := _prefix(module, state)):
        raise BuildError(
            f"the checkpoint {checkpoint} does not fit the model: its names begin with {prefix!r}",
            kind=_KIND,
            remedy=f"save its tensors under name.removeprefix({prefix!r})",
        )
    if complaints:
        raise BuildError(
            f"the checkpoint {checkpoint} does not fit the model: {'; '.join(complaints)}",
            kind=_KIND,
            remedy="name the checkpoint of this architecture and these parameters",
        )
    saved = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
    if len(saved) == 1 and saved & {torch.bfloat16, torch.float16}:
        buffers = list(module.named_buffers(remove_duplicate=False))
        in_dtype(module, str(saved.pop()).removeprefix("torch."))
        for name, buffer in buffers:
            if name.endswith(_FREQUENCIES) and name not in state:
                where, _, attribute = name.rpartition(".")
                setattr(module.get_submodule(where), attribute, buffer)
    module.load_state_dict(state, strict=False)


def checkpoint_content(path: Path) -> object:
    """Everything in a checkpoint; nothing in the file is ever executed."""
    import pickle

    try:
        return _read_content(path)
    except MemoryError:
        raise
    except pickle.UnpicklingError as error:
        raise BuildError(
            f"the checkpoint {path} holds more than tensors, so it is not loaded",
            kind=_KIND,
            remedy="save module.state_dict() instead of the module",
        ) from error
    except Exception as error:  # instructions of a pickle that nothing wrote end in any way
        raise BuildError(f"the checkpoint {path} cannot be read: {error}", kind=_KIND) from error


def _read_content(path: Path) -> object:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    import torch

    return torch.load(path, map_location="cpu", weights_only=True)


def _state_dict(path: Path, content: object) -> Mapping[str, torch.Tensor]:
    """The tensors by name; training loops keep them one level down, under ``state_dict``."""
    import torch

    if isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    remedy = "torch.save(module.state_dict(), ...)"
    if not isinstance(content, Mapping):
        what = f"it holds a {type(content).__name__}"
    elif unnamed := [key for key in content if not isinstance(key, str)]:
        what = f"{first_few([repr(key) for key in unnamed], _SHOWN)} is no name"
    elif others := [key for key, one in content.items() if not isinstance(one, torch.Tensor)]:
        what = f"{first_few(others, _SHOWN)} is no tensor"
        if inner := [key for key in others if _is_state(content[key])]:
            remedy = f"save what is under {' or '.join(map(repr, inner))} in a file of its own"
    else:
        return {name.removeprefix(_COMPILED): tensor for name, tensor in content.items()}
    raise BuildError(
        f"the checkpoint {path} is not a mapping of names to tensors: {what}",
        kind=_KIND,
        remedy=remedy,
    )


def _is_state(value: object) -> bool:
    import torch

    held = list(value.values()) if isinstance(value, Mapping) else []
    return bool(held) and all(isinstance(each, torch.Tensor) for each in held)


def _mismatches(module: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> list[str]:
    expected = module.state_dict()
    # Files from before torch 0.4.1, as torchvision's, have no counts of batches.
    missing = [n for n in expected if n not in state and n.rpartition(".")[2] != _COUNT]
    shared = _shared_with(module, state)
    shapes = [
        f"{name} is {_shape(state[name])} where the model has {_shape(tensor)}"
        for name, tensor in expected.items()
        if name in state and state[name].shape != tensor.shape
    ]
    return [
        f"{words} {first_few(names, _SHOWN)}"
        for words, names in (
            ("it lacks", [name for name in missing if name not in shared]),
            ("it holds unknown", [name for name in state if name not in expected]),
            ("sizes differ:", shapes),
        )
        if names
    ]


def _prefix(module: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> str:
    """What the names of all the model's weights begin with, as a wrapper's do; else empty."""
    first = next(iter(module.state_dict()), "")
    for prefix in [name.removesuffix(first) for name in state if name.endswith(f".{first}")]:
        inner = {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}
        if not _mismatches(module, inner):
            return prefix
    return ""


def _shared_with(module: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> set[str]:
    """Names that need no entry of their own: tied to a parameter the checkpoint does hold."""
    named = list(module.named_parameters(remove_duplicate=False))
    given = {id(parameter) for name, parameter in named if name in state}
    return {name for name, parameter in named if id(parameter) in given}


def _shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a scalar"
