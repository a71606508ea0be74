"""Locks between processes that are released when their holder dies."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from benchorch.errors import ConfigError

# Descriptors of the locks this process holds: a forked child would inherit them and keep a lock
# alive after its parent was killed. A child that was executed does not inherit them.
_held: set[int] = set()


def _release_in_child() -> None:
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_release_in_child)


def flock(file: IO[str] | int, *, wait: bool = True, shared: bool = False) -> bool:
    """Lock an open file until it is closed; False where another process has it.

    Raises ConfigError where the system has no such locks, as Windows.
    """
    try:
        import fcntl
    except ImportError as error:
        raise ConfigError(
            ["Runs, stores and trackers need file locks of Linux or macOS; this system has none."],
            next="the same command in WSL 2, or benchorch plan",
        ) from error
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the latter from some network file systems
        if wait:
            raise
        return False
    return True


def lock_file(path: Path) -> IO[str]:
    """A file for `flock`, made if need be; one that is a pipe does not block."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "w")


@contextmanager
def locked(
    path: Path, *, wait: bool = True, shared: bool = False, make: bool = True
) -> Iterator[bool]:
    """Whether the caller holds the lock while this is open.

    Args:
        path: a file made for this lock; it stays, since removing it would split the lock in two.
        wait: until the holder is done or dead; otherwise False if it is held.
        shared: with other holders that share it.
        make: the file if there is none; otherwise FileNotFoundError.
    """
    descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if make else 0), 0o600)
    _held.add(descriptor)
    try:
        yield flock(descriptor, wait=wait, shared=shared)
    finally:
        if descriptor in _held:  # not in a child that was forked meanwhile
            _held.remove(descriptor)
            os.close(descriptor)
