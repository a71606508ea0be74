"""Which artifacts are in use, and when each of the others was last used.

::

    <root>/uses/<pid>-<n>.lock   held by each user of the store; its mtime is when the use began
    <root>/uses/trim             held by the process that evicts
    <root>/uses/turn             shared by processes that look entries up, exclusive to evict one
    <entry>/used                 its mtime is when the entry was last found, or built

An entry found since the oldest living user began may be in use and stays. A dead user holds no
lock, so nothing has to be cleaned up after it.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchorch.locks import locked

_TURN = "turn"
_USED = "used"


@contextmanager
def register_use(uses: Path) -> Iterator[None]:
    """While this is open, no process evicts what any process finds."""
    descriptor, name = tempfile.mkstemp(prefix=f"{os.getpid()}-", suffix=".lock", dir=uses)
    os.close(descriptor)
    path = Path(name)
    with locked(path):
        path.touch()  # a process that looked before it was locked took it for a dead user's
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _active_uses_ns(uses: Path) -> list[int]:
    """Start of each active use."""
    living = []
    for path in uses.glob("*.lock"):
        with suppress(FileNotFoundError):  # it has ended meanwhile
            since_ns = path.stat().st_mtime_ns
            with locked(path, wait=False, make=False) as dead:
                if not dead:
                    living.append(since_ns)
    return living


def mark_used(uses: Path, entry: Path) -> bool:
    """Whether an entry exists; if so, it was last used now.

    No active use began later than now: where the clock was set back since, its start counts as now.
    """
    with suppress(OSError), locked(uses / _TURN, shared=True):
        if entry.is_dir():
            used = entry / _USED
            used.touch()
            newest_ns = max(_active_uses_ns(uses), default=0)
            if newest_ns > used.stat().st_mtime_ns:
                os.utime(used, ns=(newest_ns, newest_ns))
    return entry.is_dir()  # a read-only store evicts nothing either


@contextmanager
def evictable(uses: Path, entry: Path) -> Iterator[bool]:
    """Whether an entry is surely unused; nothing can be found meanwhile, so keep it short."""
    with locked(uses / _TURN):
        since_ns = min(_active_uses_ns(uses), default=None)
        yield since_ns is None or last_used_ns(entry) < since_ns


def last_used_ns(entry: Path) -> int:
    """Time at which an entry was last found, or else built."""
    for path in (entry / _USED, entry):
        with suppress(OSError):
            return path.stat().st_mtime_ns
    return 0


def size_bytes(directory: Path) -> int:
    """Total size of the files below a directory."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                total += Path(folder, name).lstat().st_size
    return total
