"""Files beside an ONNX file that hold tensors of its graph, checked before one of them is opened.

The graph names them and where each tensor lies, and it may be a stranger's. So a name stays in the
graph's folder, a file is as long as its tensors need, and bytes are not taken many times over.
"""

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchorch.errors import ConfigError

MOST_BYTES = 2**38
"""Limit for all files of one graph: 256 GiB, larger than a model on one machine."""

_MOST_TIMES, _FREE_BYTES = 4, 2**26  # tensors may share bytes, and each is a copy once it is loaded
_ADDRESS = "_ORT_MEM_ADDR_"  # ONNX Runtime takes the offset for an address in memory
_MOST_DIGITS = 19


def external_files(model: Any, path: Path) -> tuple[Path, ...]:
    """Files that hold tensors of a graph, sorted by the names that the graph has for them.

    Args:
        model: an ``onnx.ModelProto`` without its external data.
        path: the graph's file.

    Raises:
        ConfigError: with links followed a file lies outside the graph's folder, it is no regular
            file or ends before a tensor does; or all hold more than `MOST_BYTES`, or expand to more
            than four times their size.
    """
    sizes: dict[str, int] = {}
    loaded = 0
    for tensor in _external_tensors(model):
        entries = _entries(tensor, path)
        name = entries.get("location", "")
        if name not in sizes:
            sizes[name] = _size(name, path)
        loaded += _length(entries, sizes[name], path)
    held = sum(sizes.values())
    if held > MOST_BYTES:
        raise _refused(path, f"its files hold {held} bytes, more than {MOST_BYTES}")
    if loaded > _MOST_TIMES * held + _FREE_BYTES:
        raise _refused(path, f"the {held} bytes of its files expand to {loaded}")
    return tuple(path.parent / name for name in sorted(sizes))


def _refused(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        [
            f"{path.name} may not be loaded: {reason}. Its external data must be regular files in "
            "its own folder; write it again with onnx.save_model(..., save_as_external_data=True)."
        ]
    )


def _external_tensors(model: Any) -> Iterator[Any]:
    """External tensors, including those of branches, bodies, functions and sparse weights."""
    from google.protobuf.message import Message  # type: ignore[import-untyped]
    from onnx import TensorProto

    left = [model]
    while left:
        message = left.pop()
        if isinstance(message, TensorProto):
            if message.data_location == TensorProto.EXTERNAL:
                yield message
            continue
        for field, value in message.ListFields():
            if field.message_type is not None:
                left.extend([value] if isinstance(value, Message) else value)


def _entries(tensor: Any, path: Path) -> Mapping[str, str]:
    """Location entries of a tensor, each once: readers differ in which duplicate they use."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if len(entries) < len(tensor.external_data):
        raise _refused(path, f"tensor {tensor.name[:80]!r} has two places")
    return entries


def _size(name: str, path: Path) -> int:
    """Size of the file of that name, in bytes."""
    shown = repr(name[:80])
    if _ADDRESS in name:
        raise _refused(path, f"it takes a tensor from memory ({shown})")
    # A cache of downloads has links to a folder in which the graph and its data lie.
    folders = {path.parent.resolve(), path.resolve().parent}
    try:
        file = (path.parent / name).resolve()
        if not any(file.is_relative_to(folder) for folder in folders):
            raise _refused(path, f"{shown} lies outside its folder")
        found = file.stat()
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links is a RuntimeError
        raise _refused(path, f"{shown} cannot be read ({error})") from error
    if not stat.S_ISREG(found.st_mode):
        raise _refused(path, f"{shown} is not a regular file")
    return found.st_size


def _length(entries: Mapping[str, str], size: int, path: Path) -> int:
    """Length of a tensor in bytes; without an own length, the rest of the file."""
    offset = _number(entries, "offset", 0, path)
    length = _number(entries, "length", max(size - offset, 0), path)
    if offset + length > size:
        end = f"bytes {offset} to {offset + length}"
        raise _refused(
            path, f"a tensor has {end} of {entries['location'][:80]!r}, which has {size}"
        )
    return length


def _number(entries: Mapping[str, str], key: str, default: int, path: Path) -> int:
    text = entries.get(key)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise _refused(path, f"{key} {text[:80]!r} of a tensor is not a number of bytes")
    return int(text)
