"""Files written whole or not at all, and what reading a damaged archive raises."""

import os
import secrets
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from benchorch.domain.codec import Json
from benchorch.domain.json_text import indented

ARCHIVE_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""Exceptions of a damaged zip file or its members, for which zipfile has no common class."""


def write_json(path: Path, value: Json) -> None:
    """Store one JSON file, whole or not at all."""
    write_text(path, "".join(indented(value)) + "\n")


def write_text(path: Path, text: str) -> None:
    """Store one text file, whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Store one file, whole or not at all; other machines may write the same one now."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_small(path: Path, *, links: bool = False, most_bytes: int = 2**26) -> bytes:
    """A file that may be a stranger's; OSError for a pipe, a device, a folder or too many bytes.

    Args:
        links: follows a link, where the user named the file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW))
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most_bytes:
            raise OSError(f"{path} is no file, or larger than {most_bytes >> 20} MiB")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def check_inside(name: str, root: Path) -> None:
    """ValueError for a file's name that leads out of the folder it is to be written in."""
    parts = PurePosixPath(name).parts
    wrong = not parts or PurePosixPath(name).is_absolute() or ".." in parts or "\0" in name
    if wrong or "\\" in name:
        raise ValueError(f"{name!r} leads out of {root}")
