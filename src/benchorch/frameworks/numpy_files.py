"""Numpy's files, whose stated sizes are compared with what they hold before memory is taken.

Numpy allocates what a header states and only then reads: a file of a hundred bytes may state an
array of terabytes, and a zip file's members may expand a thousandfold.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO

from benchorch.domain.tensors import Array, Arrays
from benchorch.files import ARCHIVE_DAMAGE
from benchorch.host.environment import available_memory_bytes
from benchorch.units import format_bytes

_PREFIX = "output "
_MOST_TIMES, _FREE_BYTES = 20, 2**28
"""How much a zip file may expand; masks, of which a file is small, expand further."""


def read_npz(path: Path) -> Arrays:
    """Every array of an .npz file by name.

    Raises:
        ValueError: it is damaged, states other sizes than it holds, holds more than memory does, or
            expands by more than 20 times and 256 MiB.
        OSError: it cannot be read.
    """
    import numpy as np

    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            total = sum(member.file_size for member in members)
            _refuse_larger_than_memory(path, total)
            size = path.stat().st_size
            if total > _MOST_TIMES * size + _FREE_BYTES:
                raise ValueError(
                    f"{path}: its {format_bytes(size)} expand to {format_bytes(total)}; write it "
                    "with numpy.savez, uncompressed"
                )
            for member in members:
                with archive.open(member) as file:
                    _check(f"{path}: {member.filename}", file, member.file_size)
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except ARCHIVE_DAMAGE as error:
        raise ValueError(f"{path} is not an .npz file, or is damaged: {error}") from error


def save_arrays(file: Path, arrays: Arrays) -> None:
    """Write an .npz file; an output may have the name of one of numpy's own parameters."""
    import numpy as np

    np.savez(file, **{f"{_PREFIX}{name}": each for name, each in arrays.items()})  # type: ignore[arg-type]


def saved(file: Path) -> Arrays:
    """The arrays that `save_arrays` wrote."""
    return {name.removeprefix(_PREFIX): array for name, array in read_npz(file).items()}


def read_npy(path: Path) -> Array:
    """The array of an .npy file; ValueError and OSError as `read_npz`."""
    import numpy as np

    size_bytes = path.stat().st_size
    _refuse_larger_than_memory(path, size_bytes)
    with path.open("rb") as file:
        _check(str(path), file, size_bytes)
    array: Array = np.load(path, allow_pickle=False)
    return array


def _refuse_larger_than_memory(path: Path, size_bytes: int) -> None:
    available = available_memory_bytes()
    if size_bytes > available:
        raise ValueError(
            f"{path} holds {format_bytes(size_bytes)}; {format_bytes(available)} of memory are free"
        )


def _check(name: str, file: IO[bytes], size_bytes: int) -> None:
    """ValueError unless an array's header states as many bytes as follow it."""
    from numpy.lib import format as npy

    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name} is of version {version} of numpy's format; 1.0 and 2.0 are read")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which are not read")
    stated, held = math.prod(shape) * dtype.itemsize, size_bytes - file.tell()
    if min(shape, default=0) < 0 or stated != held:
        raise ValueError(f"{name} states {stated} bytes of data and holds {held}")
