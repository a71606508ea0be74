"""The bytes of a trace's file, unpacked if it is packed, a bounded piece at a time."""

import gzip
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
        self._packed = gzip.GzipFile(fileobj=self._file) if packed else None
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
            packed = self._packed
            found = self._unpacked(packed, size) if packed else self._file.read(size)
        except OSError as error:
            raise TraceError(f"{self.path} cannot be read: {error.strerror}.") from error
        self._position += len(found)
        if self._packed is not None and self._position > self._limit_bytes:
            raise TraceError(
                f"{self.path} unpacks to more than {format_bytes(self._limit_bytes)}, which no "
                "profile that can be analysed does. Profile fewer iterations."
            )
        return found

    def skip_to(self, position: int) -> None:
        """Go on at a later position of the unpacked bytes."""
        if self._packed is None:
            self._file.seek(position)
            self._position = position
        while self._position < position:
            if not self.read(min(_SKIPPED_BYTES, position - self._position)):
                return

    def _unpacked(self, packed: gzip.GzipFile, size: int) -> bytes:
        """Up to `size` bytes out of as many members as that takes."""
        found = bytearray()
        while len(found) < size and not self._ended:
            try:
                piece = packed.read1(size - len(found))
            except EOFError:
                self._end("truncated gzip")
            except (zlib.error, gzip.BadGzipFile):
                self._end("damaged gzip")
            else:
                found += piece
                self._ended = not piece
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
