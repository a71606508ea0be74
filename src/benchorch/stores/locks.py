"""Locks between processes that die with their holder."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Descriptors of the locks this process holds: a forked child would inherit them and keep a lock
# alive after its parent was killed. A child that was executed does not inherit them.
_held: set[int] = set()


def _let_go_in_child() -> None:
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_child)


@contextmanager
def locked(
    path: Path, *, wait: bool = True, shared: bool = False, make: bool = True
) -> Iterator[bool]:
    """Whether the lock is held by the caller meanwhile, and by nobody else.

    Args:
        path: a file made for this lock; it stays, since removing it would split the lock in two.
        wait: until the holder is done or dead; otherwise False where somebody holds it.
        shared: held together with others that share it.
        make: the file where there is none; otherwise FileNotFoundError.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0)
    descriptor = os.open(path, flags, 0o600)
    _held.add(descriptor)
    try:
        yield _acquire(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, wait)
    finally:
        if descriptor in _held:  # not so in a child that was forked meanwhile
            _held.remove(descriptor)
            os.close(descriptor)


def _acquire(descriptor: int, kind: int, wait: bool) -> bool:
    try:
        fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES) and not wait:
            return False
        raise
    return True
