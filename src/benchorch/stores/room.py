"""Which artifacts are in use, and which of the others was used longest ago?

::

    <root>/uses/<pid>-<n>.lock   held by whoever will use what it finds; since when is its mtime
    <root>/uses/trim             held by who makes room
    <root>/uses/turn             held in common by those who find, alone by who drops an artifact
    <entry>/used                 its mtime is when the artifact was last found

What was found since the oldest living user began may be in use and stays. A user that is dead holds
nothing, so it needs no clearing up.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchorch.stores.locks import locked

_TURN = "turn"
_USED = "used"


@contextmanager
def use(uses: Path) -> Iterator[None]:
    """While this is open, nothing that is found is dropped by anybody."""
    descriptor, name = tempfile.mkstemp(prefix=f"{os.getpid()}-", suffix=".lock", dir=uses)
    os.close(descriptor)
    path = Path(name)
    with locked(path):
        path.touch()  # whoever looked before it was locked took it for a dead one's
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def oldest_use_ns(uses: Path) -> int | None:
    """Since when the oldest living user has been there; None where there is none."""
    living = []
    for path in uses.glob("*.lock"):
        with suppress(FileNotFoundError):  # it has ended meanwhile
            since_ns = path.stat().st_mtime_ns
            with locked(path, wait=False, make=False) as dead:
                if not dead:
                    living.append(since_ns)
    return min(living, default=None)


def found(uses: Path, entry: Path) -> bool:
    """Whether an entry is there; it counts as used from now on."""
    with suppress(OSError), locked(uses / _TURN, shared=True):
        if entry.is_dir():
            (entry / _USED).touch()
    return entry.is_dir()  # in a store that may only be read nothing is dropped either


@contextmanager
def unused(uses: Path, entry: Path) -> Iterator[bool]:
    """Whether nobody can be using an entry; nobody finds one meanwhile, so keep it short."""
    with locked(uses / _TURN):
        since_ns = oldest_use_ns(uses)
        yield since_ns is None or last_used_ns(entry) < since_ns


def last_used_ns(entry: Path) -> int:
    """When an entry was last found, or made where it never was."""
    for path in (entry / _USED, entry):
        with suppress(OSError):
            return path.stat().st_mtime_ns
    return 0


def size_bytes(directory: Path) -> int:
    """What the files below a directory hold."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                total += Path(folder, name).lstat().st_size
    return total
