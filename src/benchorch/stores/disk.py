"""File system operations: sync a tree, swap two directories, explain a failure."""

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchorch.errors import StoreError, causes
from benchorch.units import format_bytes

# With less than this no compiler could have gone on writing, whatever its message says.
_NOTHING_FREE_BYTES = 64 * 1024
_AT_WORKING_DIRECTORY = -100
_RENAME_EXCHANGE = 2


def sync_tree(directory: Path) -> None:
    """Flush everything below a directory to the disk, names included."""
    for folder, _, names in os.walk(directory):
        for name in names:
            sync(Path(folder, name))
        sync(Path(folder))


def sync(path: Path) -> None:
    """Flush a file, or the names in one directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(new: Path, target: Path) -> None:
    """Move a directory to its target in one step; what was there is left at `new`."""
    if not os.path.lexists(target):
        new.rename(target)
    elif not _exchange(new, target):
        aside = new.with_name(f"{new.name}.old")
        target.rename(aside)
        new.rename(target)
        aside.rename(new)
    sync(target.parent)


def _exchange(first: Path, second: Path) -> bool:
    """Whether two names were swapped atomically; some systems and file systems cannot."""
    swap = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if swap is None:
        return False
    paths = (_AT_WORKING_DIRECTORY, os.fsencode(first), _AT_WORKING_DIRECTORY, os.fsencode(second))
    return bool(swap(*paths, _RENAME_EXCHANGE) == 0)


def discard(path: Path) -> None:
    """Remove a directory or a file as far as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into a StoreError that names the path."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise disk_full_error(path) from error
        raise StoreError(f"{error.filename or path}: {error.strerror or error}.") from error


def disk_full_error(path: Path) -> StoreError:
    """The error for a disk without free space."""
    free = free_bytes(path)
    return StoreError(
        f"disk full: {path} has {free} bytes ({format_bytes(free)}) free. "
        "Free some space there, or name another store.root."
    )


def disk_full_cause(error: BaseException, path: Path) -> OSError | None:
    """The full disk behind a failure, or None if it failed for another reason.

    Many writers swallow the error number, so a disk with no free space counts as the cause.
    """
    for cause in causes(error, implied=True):
        if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
            return cause
    if isinstance(error, Exception) and free_bytes(path) < _NOTHING_FREE_BYTES:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    return None


def free_bytes(path: Path) -> int:
    """Free space on the disk of a path, whether or not the path exists."""
    existing = next(place for place in (path, *path.parents) if place.exists())
    return shutil.disk_usage(existing).free
