"""State of files, folders and links, as far as code can ask for it without opening them."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import Any, Final

from benchorch.domain.artifact import digest_of
from benchorch.frameworks.identity.stacks import asked_by_user

SIZES: Final = "st_size"
TIMES: Final = "st_mtime_ns"

_read_link = os.readlink  # which is another one while a load is recorded
_DEVICE = re.compile(r"<|/dev/(?!shm/)|/proc/(?:self|thread-self|\d+)/")
_SYSTEM = ("/proc/", "/sys/")


def absolute(path: object, folder: object = None) -> str:
    """Absolute path of a name, of a name below an open folder, or of what a descriptor is for.

    Empty for anything else.
    """
    if isinstance(path, int):
        found = link_target(f"/proc/self/fd/{path}")
        return found if os.path.isabs(found) else ""
    if not isinstance(path, str | bytes | os.PathLike):
        return ""
    name = os.fsdecode(path)
    base = absolute(folder) if isinstance(folder, int) else ""
    return os.path.abspath(os.path.join(base, name)) if name else ""


def is_file_of_nobody(path: str) -> bool:
    """Whether a path is that of a device or of this process; of the system, unless a user asks."""
    return bool(_DEVICE.match(path)) or (path.startswith(_SYSTEM) and not asked_by_user())


def place_kind(name: str) -> str:
    """``file``, ``folder`` or ``link`` without either; empty where there is nothing."""
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError):
        return "link" if os.path.lexists(name) else ""
    return "folder" if stat.S_ISDIR(mode) else "file"


def names_digest(folder: str) -> str:
    """Digest of the names in a folder, and which are folders; empty where there is none."""
    try:
        with os.scandir(folder) as entries:
            return digest_of(sorted(f"{one.name}{'/' * one.is_dir()}" for one in entries))
    except OSError:
        return ""


def entries_digest(folder: str, what: str) -> str:
    """Digest of the sizes or times of what is in a folder, by name; empty where there is none."""
    try:
        with os.scandir(folder) as entries:
            return digest_of(sorted(f"{_status(one, what)} {one.name}" for one in entries))
    except OSError:
        return ""


def _status(entry: os.DirEntry[str], what: str) -> int:
    """Size or time of what an entry leads to, or of a link that leads nowhere."""
    with suppress(OSError):
        return int(getattr(entry.stat(), what))
    return int(getattr(entry.stat(follow_symlinks=False), what))


def link_target(name: str) -> str:
    """Where a symbolic link leads; empty where there is none."""
    try:
        return _read_link(name)
    except (OSError, ValueError):
        return ""


def permissions(name: str) -> str:
    """What this process may do with a file: some of ``rwx``."""
    asked: Any = zip("rwx", (os.R_OK, os.W_OK, os.X_OK), strict=True)
    with suppress(OSError, ValueError):
        return "".join(letter for letter, mode in asked if os.access(name, mode))
    return ""
