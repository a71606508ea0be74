"""The bytes of a trace's file, unpacked if it is packed, a bounded piece at a time."""

import os
import zlib
from collections import Counter
from io import BufferedReader
from pathlib import Path
from typing import Self, final

from benchorch.errors import TraceError
from benchorch.units import format_bytes

GZIP_MAGIC = b"\x1f\x8b"
MOST_UNPACKED_BYTES = 16 * 2**30
_MOST_RATIO, _ANY_BYTES = 300, 2**30
_PACKED_BYTES = 64 * 2**10  # what a damaged place can cost
_GZIP_FRAME = 31  # zlib's number for: with gzip's header and checksum
_SKIPPED_BYTES = 2**20


@final
class TraceFile:
    """A file that is read forwards, plain or gzip by what it starts with; TraceError if too large.

    Memory is bounded by the size requested. `repairs` counts where the packing broke off.
    """

    def __init__(self, path: Path, limit_bytes: int = MOST_UNPACKED_BYTES) -> None:
        self.repairs: Counter[str] = Counter()
        self.path = path
        self._position = 0
        self._ended = False
        self._file = _opened(path)
        packed = self._file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        self._file.seek(0)
        self._inflate = zlib.decompressobj(_GZIP_FRAME) if packed else None
        size_bytes = os.fstat(self._file.fileno()).st_size
        if not packed and size_bytes > limit_bytes:
            self._file.close()
            raise TraceError(
                f"{path} has {format_bytes(size_bytes)}; a profile that can be analysed has "
                f"{format_bytes(limit_bytes)} at most. Profile fewer iterations."
            )
        expected_bytes = max(_ANY_BYTES, _MOST_RATIO * size_bytes)
        self._limit_bytes = min(limit_bytes, expected_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """The next bytes, as many as requested unless the file ends; empty at its end."""
        try:
            found = self._file.read(size) if self._inflate is None else self._unpacked(size)
        except OSError as error:
            raise TraceError(f"{self.path} cannot be read: {error.strerror}.") from error
        self._position += len(found)
        if self._inflate is not None and self._position > self._limit_bytes:
            raise TraceError(
                f"{self.path} unpacks to more than {format_bytes(self._limit_bytes)}, which no "
                "profile that can be analysed does. Profile fewer iterations."
            )
        return found

    def skip_to(self, position: int) -> None:
        """Go on at a later position of the unpacked bytes."""
        if self._inflate is None:
            self._file.seek(position)
            self._position = position
        while self._position < position:
            if not self.read(min(_SKIPPED_BYTES, position - self._position)):
                return

    def _unpacked(self, size: int) -> bytes:
        """Up to `size` bytes out of as many members as that takes."""
        assert self._inflate is not None
        found = bytearray()
        while len(found) < size and not self._ended:
            if self._inflate.eof:
                packed = self._inflate.unused_data or self._file.read(_PACKED_BYTES)
                if not packed.startswith(GZIP_MAGIC[:1]):  # padding, or nothing
                    self._ended = True
                    break
                self._inflate = zlib.decompressobj(_GZIP_FRAME)
            else:
                packed = self._inflate.unconsumed_tail or self._file.read(_PACKED_BYTES)
                if not packed:
                    self._end("truncated gzip")
                    break
            try:
                found += self._inflate.decompress(packed, size - len(found))
            except zlib.error:
                self._end("damaged gzip")
        return bytes(found)

    def _end(self, repair: str) -> None:
        self._ended = True
        self.repairs[repair] += 1


def _opened(path: Path) -> BufferedReader:
    if path.exists() and not path.is_file():
        raise TraceError(f"{path} is not a file. Give the file of one profile.")
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise TraceError(f"There is no file {path}.") from error
    except (OSError, ValueError) as error:
        raise TraceError(f"{path} cannot be opened: {error}.") from error
