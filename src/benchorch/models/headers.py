"""Names, shapes and dtypes in a tensor file's header, without importing numpy."""

import ast
import json
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from benchorch.files import ARCHIVE_DAMAGE, Stamp, stamp

SAFETENSORS_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
"""The format's own names for the element types that an input may have."""

_NPY_KINDS = {"f": "float", "i": "int", "u": "uint"}
_NPY_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER_BYTES = 100_000_000  # the safetensors format's own limit
_LONGEST_NPY_HEADER_BYTES = 2**20  # a member may expand to gigabytes

_ODD = (OSError, ValueError, SyntaxError, KeyError, TypeError, MemoryError)
"""Exceptions of a damaged header; OSError for a member that begins before the file, MemoryError
for a header that nests too deeply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Tensor header of a file.

    Attributes:
        shape: in whole numbers.
        dtype: as in `domain.tensors.DTYPES` where it is one of them, else the file's own word.
    """

    shape: tuple[int, ...]
    dtype: str


def read_headers(path: Path) -> Mapping[str, Header]:
    """Every tensor of an .npz or .safetensors file by name; ValueError for a damaged file."""
    return _read_headers(path, stamp(path.stat()))


@lru_cache(maxsize=64)
def _read_headers(path: Path, _: Stamp) -> Mapping[str, Header]:
    if path.suffix == ".safetensors":
        return safetensors_headers(path)
    if path.suffix == ".npz":
        return _npz_headers(path)
    raise ValueError(f"{path} is neither an .npz nor a .safetensors file")


def safetensors_headers(path: Path) -> Mapping[str, Header]:
    """Every tensor that a safetensors header declares; ValueError if the file cannot hold them."""
    with path.open("rb") as file:
        table, data_bytes = _safetensors_table(path, file)
    try:
        end = max((entry["data_offsets"][1] for entry in table.values()), default=0)
        headers = {
            name: Header(
                shape=tuple(map(int, entry["shape"])),
                dtype=SAFETENSORS_DTYPES.get(entry["dtype"], entry["dtype"]),
            )
            for name, entry in table.items()
        }
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} has a safetensors header that describes no tensors") from error
    if end != data_bytes:
        raise ValueError(f"{path} is cut short or damaged: {data_bytes} of {end} data bytes")
    return headers


def _safetensors_table(path: Path, file: IO[bytes]) -> tuple[dict[str, Any], int]:
    """The header's JSON without its metadata, and how many bytes follow it."""
    size_bytes = path.stat().st_size
    prefix = file.read(8)
    length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
    if not 2 <= length <= min(size_bytes - 8, _LONGEST_HEADER_BYTES):
        raise ValueError(f"{path} is not a safetensors file: its first 8 bytes give no length")
    try:
        table = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a safetensors file: its header is not JSON") from error
    if not isinstance(table, dict):
        message = f"{path} is not a safetensors file: its header is not a mapping"
        raise ValueError(message)  # noqa: TRY004 the file is wrong, not an argument

    table.pop("__metadata__", None)
    return table, size_bytes - 8 - length


def _npz_headers(path: Path) -> Mapping[str, Header]:
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                name.removesuffix(".npy"): _npy_header(archive, name) for name in archive.namelist()
            }
    except (*ARCHIVE_DAMAGE, *_ODD) as error:
        raise ValueError(f"{path} is not an .npz file, or is damaged: {error}") from error


def _npy_header(archive: zipfile.ZipFile, name: str) -> Header:
    with archive.open(name) as file:
        start = file.read(8)
        wide = start[6:7] > b"\x01"  # version 2 widened the length from two bytes to four
        length_bytes = file.read(4 if wide else 2)
        if start[:6] != _NPY_MAGIC or len(length_bytes) < 2:
            raise ValueError(f"{archive.filename}: {name} is not an array")
        length = int.from_bytes(length_bytes, "little")
        if length > _LONGEST_NPY_HEADER_BYTES:
            raise ValueError(f"{name} has a header of {length} bytes")
        header = ast.literal_eval(file.read(length).decode())
    return Header(shape=tuple(header["shape"]), dtype=_npy_dtype(header["descr"]))


def _npy_dtype(descr: object) -> str:
    """``<f4`` is float32; anything that is no plain number keeps the file's own word."""
    text = str(descr)
    if text[1:] == "b1":
        return "bool"
    kind, size = text[1:2], text[2:]
    return f"{_NPY_KINDS[kind]}{8 * int(size)}" if kind in _NPY_KINDS else text
