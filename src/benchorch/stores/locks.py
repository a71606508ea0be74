"""Locks between processes that are released when their holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Descriptors of the locks this process holds: a forked child would inherit them and keep a lock
# alive after its parent was killed. A child that was executed does not inherit them.
_held: set[int] = set()


def _release_in_child() -> None:
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_release_in_child)


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
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0)
    descriptor = os.open(path, flags, 0o600)
    _held.add(descriptor)
    try:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
            acquired = True
        except (BlockingIOError, PermissionError):  # the latter from some network file systems
            if wait:
                raise
            acquired = False
        yield acquired
    finally:
        if descriptor in _held:  # not in a child that was forked meanwhile
            _held.remove(descriptor)
            os.close(descriptor)
