"""Files written whole or not at all, what reads YAML, and what reading a damaged archive raises."""

import errno
import hashlib
import json
import os
import secrets
import stat
import zipfile
import zlib
from contextlib import suppress
from functools import lru_cache
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from benchorch.domain.codec import Json
from benchorch.domain.json_text import indented
from benchorch.errors import ConfigError

ARCHIVE_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""Exceptions of a damaged zip file or its members, for which zipfile has no common class."""

# Of these Windows has the last alone.
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def write_json(path: Path, value: Json) -> None:
    """Store one JSON file, whole or not at all."""
    write_text(path, "".join(indented(value)) + "\n")


def write_text(path: Path, text: str) -> None:
    """Store one text file, whole or not at all."""
    write_bytes(path, as_bytes(text))


def as_bytes(text: str) -> bytes:
    """Text as a file holds it; lone surrogates, which a stranger's names may have, are escapes."""
    return text.encode(errors="backslashreplace")


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


def yaml_loader() -> Any:
    """The safe loader of YAML whose parser is in C, where there is one: it is ten times faster."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def open_regular(path: Path, *, links: bool = True) -> BufferedReader:
    """A regular file, opened at once; OSError with a sentence for a pipe, a device or a folder.

    Args:
        links: follows a link, where benchorch or the user named the file.
    """

    def regular(name: str, _: int) -> int:
        descriptor = os.open(name, _FLAGS | (0 if links else _NOFOLLOW))
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is a folder, a pipe or a device, and no file", name)

    return open(os.fspath(path), "rb", opener=regular)  # whose name parsers show


def read_small(path: Path, *, links: bool = False, most_bytes: int = 2**26) -> bytes:
    """A file that may be a stranger's; OSError as `open_regular`, or for too many bytes."""
    with open_regular(path, links=links) as file:
        if os.fstat(file.fileno()).st_size > most_bytes:
            raise OSError(errno.EFBIG, f"it has more than {most_bytes >> 20} MiB", str(path))
        return file.read()


def read_bytes(path: Path) -> bytes:
    """A file of the user's or of benchorch's own; OSError as `read_small`."""
    return read_small(path, links=True, most_bytes=2**30)


def read_text(path: Path) -> str:
    """A text of the user's or of benchorch's own; OSError as `read_small`."""
    return read_bytes(path).decode()


def read_json(path: Path) -> Any:
    """A JSON file's value; OSError as `read_small`, ValueError for what is no JSON."""
    try:
        return json.loads(read_bytes(path))
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error


def expanded(path: str | Path) -> Path:
    """A path with the home that ``~`` stands for; unchanged where no user is called so."""
    with suppress(RuntimeError):
        return Path(path).expanduser()
    return Path(path)


def home() -> Path | None:
    """Home of the user; None where neither HOME nor the machine's list of users has one."""
    with suppress(RuntimeError):
        return Path.home()
    return None


def user_directory(root: str, variable: str) -> Path:
    """Benchorch's own directory below one that a variable may name; ConfigError without a home."""
    with suppress(RuntimeError):
        return Path(root).expanduser() / "benchorch"
    raise ConfigError(
        [
            f"HOME is not set, and this machine's list of users names no home either, so {root} is "
            f"nowhere. Set HOME, or {variable}, to a folder."
        ]
    )


def check_inside(name: str, root: Path) -> None:
    """ValueError for a file's name that leads out of the folder it is to be written in."""
    parts = PurePosixPath(name).parts
    wrong = not parts or PurePosixPath(name).is_absolute() or ".." in parts or "\0" in name
    if wrong or "\\" in name:
        raise ValueError(f"{name!r} leads out of {root}")


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes; OSError as `open_regular`."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


Stamp: TypeAlias = tuple[int, int, int, int, int]


def stamp(status: os.stat_result) -> Stamp:
    """File system metadata that changes whenever a file's bytes do."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def digest_once(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes, read once in a process while the file stays the same."""
    return _digest(path, stamp(path.stat()))


@lru_cache(maxsize=2**14)
def _digest(path: Path, _: Stamp) -> str:
    return file_digest(path)


def folder_digest(folder: Path) -> str:
    """SHA-256 (hex) of a folder's files and their names."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(f"{path.relative_to(folder).as_posix()} {file_digest(path)}\n".encode())
    return total.hexdigest()
