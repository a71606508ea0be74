"""What a disk is asked to do: keep a tree, swap two directories, say why it cannot."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchorch.errors import StoreError
from benchorch.units import format_bytes

# Less than this and no compiler could have gone on writing, whatever its message says.
_NOTHING_FREE_BYTES = 64 * 1024
_AT_WORKING_DIRECTORY = -100
_RENAME_EXCHANGE = 2


def sync_tree(directory: Path) -> None:
    """Everything below a directory is on the disk, names included."""
    for folder, _, names in os.walk(directory):
        for name in names:
            _sync(Path(folder, name))
        _sync(Path(folder))


def sync_directory(directory: Path) -> None:
    """The names in one directory are on the disk."""
    _sync(directory)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def place(new: Path, target: Path) -> None:
    """Put a directory in its place in one move; what was there is left at `new`."""
    if not os.path.lexists(target):
        new.rename(target)
    elif not _exchange(new, target):
        aside = new.with_name(f"{new.name}.old")
        target.rename(aside)
        new.rename(target)
        aside.rename(new)
    sync_directory(target.parent)


def _exchange(first: Path, second: Path) -> bool:
    """Whether two names were swapped at once; some systems and file systems cannot."""
    swap = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if swap is None:
        return False
    places = (_AT_WORKING_DIRECTORY, os.fsencode(first), _AT_WORKING_DIRECTORY, os.fsencode(second))
    return bool(swap(*places, _RENAME_EXCHANGE) == 0)


def discard(path: Path) -> None:
    """Remove a directory or a file as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def speaking_of(path: Path) -> Iterator[None]:
    """Turns what the system says into a StoreError that names the place."""
    try:
        yield
    except OSError as error:
        raise as_store_error(error, path) from error


def as_store_error(error: OSError, path: Path) -> StoreError:
    """What the system said about a place, in a sentence."""
    if error.errno == errno.ENOSPC:
        return disk_full_error(path)
    return StoreError(f"{error.filename or path}: {error.strerror or error}.")


def disk_full_error(path: Path) -> StoreError:
    """The sentence for a disk that has no space left."""
    free = free_bytes(path)
    return StoreError(
        f"disk full: {path} has {free} bytes ({format_bytes(free)}) free. "
        "Free some space there, or name another store.root."
    )


def lack_of_space(error: BaseException, path: Path) -> OSError | None:
    """The full disk behind a failure, or None if it failed for another reason.

    Many writers swallow the system's error number, so a disk with nothing left speaks for itself.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
            return cause
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, Exception) and free_bytes(path) < _NOTHING_FREE_BYTES:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    return None


def free_bytes(path: Path) -> int:
    """What is free where a path is, or would be if it is gone."""
    existing = next(place for place in (path, *path.parents) if place.exists())
    return shutil.disk_usage(existing).free


def place_of(error: OSError, known: Path) -> Path:
    """The place an error speaks of; the known one where it says nothing or lies below that."""
    if not isinstance(error.filename, str) or Path(error.filename).is_relative_to(known):
        return known
    return Path(error.filename)
