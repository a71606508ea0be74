"""Whether everything that a load consulted is as it was."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchorch.domain.artifact import digest_of
from benchorch.files import file_digest
from benchorch.frameworks.identity.consulted import LoadReads
from benchorch.frameworks.identity.owners import USER
from benchorch.frameworks.identity.places import (
    SIZES,
    TIMES,
    entries_digest,
    link_target,
    names_digest,
    permissions,
    place_kind,
)
from benchorch.frameworks.identity.stacks import STDLIB, kind_of
from benchorch.frameworks.identity.variables import OWN_VARIABLES, variable_digest

_LARGEST_DIGESTED_BYTES = 64 * 2**20


def evidence(
    record: LoadReads, files: Iterable[Path], texts: Iterable[str], *, day: str = ""
) -> dict[str, Any]:
    """Current state of everything that a record read, as JSON.

    Args:
        record: of the load.
        files: of the user's code.
        texts: of the model's options that may name files, and lists of packages' files.
        day: the date, where code asks for the time that may do so to measure it.
    """
    users = set(map(str, files))
    loaded = sorted({str(each) for each in _module_files()} - users)
    # Native code opens unheard what was looked for before.
    opened = {
        *record.files,
        *filter(os.path.isfile, record.found - record.written),
        *map(os.path.abspath, texts),
    }
    own = sorted(users | (opened - set(loaded)) | {*filter(None, map(_trusted_bytecode, users))})
    beside = (str(path.parent) for path in files)
    names: dict[str, Iterable[str]] = {
        "places": {*filter(_is_place, sys.path), *beside, *_package_folders()},
        "folders": record.folders,
        "entries": record.scanned,
        "links": record.links,
        "asked": record.asked,
        "found": filter(place_kind, record.found),
    }
    variables = sorted(record.variables - set(OWN_VARIABLES))
    return {
        "python": sys.version,
        "day": day,
        "machine": _machine(),
        "path": _import_path(),
        "variables": {name: variable_digest(record.environment, name) for name in variables},
        "files": {name: file_status(name, digest=True) for name in own},
        "loaded": {"names": loaded, "digest": _loaded_digest(loaded)},
        "missing": sorted(name for name in record.missing if not os.path.lexists(name)),
        **{
            group: {name: now(name) for name in sorted(names[group])} for group, now in _NOW.items()
        },
    }


def holds(seen: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether everything that was consulted is as it was; False for anything unreadable.

    Args:
        seen: by `evidence`.
        environment: variables that are compared; those before a load, which may set some itself.
    """
    try:
        return (
            seen["python"] == sys.version
            and seen["day"] in ("", today())
            and seen["machine"] == _machine()
            and seen["path"] == _import_path()
            and all(
                variable_digest(environment, name) == was for name, was in seen["variables"].items()
            )
            and not any(map(os.path.lexists, seen["missing"]))
            and all(
                now(name) == was for group, now in _NOW.items() for name, was in seen[group].items()
            )
            and all(is_as_it_was(name, was) for name, was in seen["files"].items())
            and _loaded_digest(seen["loaded"]["names"]) == seen["loaded"]["digest"]
        )
    except (KeyError, TypeError, AttributeError, ValueError, OSError):
        return False


def today() -> str:
    """The date here."""
    return time.strftime("%Y-%m-%d")


def _module_files() -> Iterator[str]:
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and os.path.isabs(file):
            yield file


def _machine() -> list[Any]:
    """What code may branch on without a file or a variable that says so."""
    flags = [f"{name}={getattr(sys.flags, name)}" for name in ("optimize", "utf8_mode", "dev_mode")]
    user = os.getuid() if hasattr(os, "getuid") else 0
    return [socket.gethostname(), os.cpu_count(), user, *time.tzname, *flags]


def _entries(folder: str) -> list[str]:
    return [entries_digest(folder, SIZES), entries_digest(folder, TIMES)]


def _trusted_bytecode(file: str) -> str:
    """The compiled file of a source file, where it is not compared with that by its time."""
    with suppress(OSError, NotImplementedError, ValueError):
        compiled = importlib.util.cache_from_source(file)
        with open(compiled, "rb") as opened:
            flags = opened.read(8)[4:]
        return compiled if any(flags) else ""
    return ""


def _package_folders() -> Iterator[str]:
    """Folders of the user's packages that are loaded: an earlier one may hide what is in others."""
    for module in list(sys.modules.values()):
        for folder in list(getattr(module, "__dict__", {}).get("__path__", None) or ()):
            if isinstance(folder, str) and kind_of(f"{folder}/") == USER:
                yield os.path.abspath(folder)


def _is_place(name: str) -> bool:
    return os.path.isabs(name) and os.path.isdir(name) and not name.startswith(STDLIB + "/lib-dyn")


def _import_path() -> list[str]:
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    places = (os.path.abspath(each) for each in ("", *filter(None, given)))
    return [*dict.fromkeys(places), sys.prefix]


def file_status(name: str, *, digest: bool) -> list[Any] | None:
    """Size, times and inode of a file, and the digest of one that is not large; None for none."""
    try:
        found = os.stat(os.fspath(name))  # a number would name a descriptor
    except OSError:
        return None
    small = digest and found.st_size <= _LARGEST_DIGESTED_BYTES and os.path.isfile(name)
    content = file_digest(Path(name)) if small else ""
    return [found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns, content]


def is_as_it_was(name: str, was: list[Any] | None) -> bool:
    """Whether a file has the status that it had with its digest."""
    now = file_status(name, digest=False)
    if was is None or now is None:
        return was is now
    if now[:-1] == was[:-1]:
        return True
    return bool(was[-1]) and now[0] == was[0] and file_digest(Path(name)) == was[-1]


def _loaded_digest(names: list[str]) -> str:
    """Over size, times and inode of every file that a loaded module is from."""
    return digest_of([file_status(name, digest=False) for name in names])


def _importable(folder: str) -> str:
    """Names in a folder that an import could find there; results of runs are none."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return ""
    return digest_of(sorted(map(_spelled, filter(_can_import, entries))))


def _spelled(entry: os.DirEntry[str]) -> str:
    """Its name; of a list of import paths, which Python reads before anything is recorded, more."""
    if not entry.name.endswith(".pth"):
        return entry.name
    status = entry.stat()
    times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
    return f"{entry.name} {status.st_size} {status.st_ino} {times}"


def _can_import(entry: os.DirEntry[str]) -> bool:
    if not entry.is_dir():
        return entry.name.endswith((".py", ".so", ".pth"))
    if entry.name.endswith((".dist-info", ".egg-info")):
        return True
    if not entry.name.isidentifier() or entry.name == "__pycache__":
        return False
    try:
        return any(name.endswith((".py", ".so")) for name in os.listdir(entry.path))
    except OSError:
        return False


_NOW: Final[Mapping[str, Callable[[str], object]]] = {
    "places": _importable,
    "folders": names_digest,
    "entries": _entries,
    "links": link_target,
    "asked": permissions,
    "found": place_kind,
}
"""State of a folder or file, by the group of what was consulted."""
