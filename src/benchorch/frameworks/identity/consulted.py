"""Files, folders and environment variables read by a load, and whether they are unchanged.

Python reports each file that it opens. The few native readers that open files themselves are
wrapped while a load is recorded.
"""

import os
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

from benchorch.domain.artifact import digest_of
from benchorch.files import file_digest
from benchorch.frameworks.identity.distributions import mapped_files
from benchorch.frameworks.identity.owners import USER
from benchorch.frameworks.identity.stacks import STDLIB, asked_by_user, asker, kind_of

_UNTRACKED: Final = {
    "socket.connect": "it opens a network connection",
    "socket.getaddrinfo": "it looks up a network address",
    "socket.bind": "it opens a network port",
    "subprocess.Popen": "it starts a process",
    "os.system": "it starts a process",
    "os.fork": "it starts a process",
    "os.forkpty": "it starts a process",
    "os.exec": "it starts a process",
    "os.posix_spawn": "it starts a process",
    "os.spawn": "it starts a process",
    "sqlite3.connect": "it opens a database",
}
_NATIVE_READERS = {
    "safetensors": (("safe_open", 0),),
    "torch._C": (("PyTorchFileReader", 0), ("import_ir_module", 1)),
    "torch": (("from_file", 0),),
    "torch:UntypedStorage": (("from_file", 0),),
}
"""Callables that open a file without Python, by their module or class; which argument names it."""

_UNSEEN_READERS = ("h5py", "pyarrow", "lmdb", "cv2", "tables", "netCDF4", "sentencepiece", "polars")
"""Packages that read files without Python."""

OWN_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONPATH")
_OWN_PREFIX = "BENCHORCH"
_NO_FILES = ("/proc/", "/sys/", "/dev/", "<")
_LARGEST_DIGESTED_BYTES = 64 * 2**20


@dataclass(slots=True)
class Record:
    """Reads of one load.

    Attributes:
        files: that were opened for reading, found or not.
        folders: whose names were listed.
        variables: environment variables that were read.
        found: files and folders that were looked for and found.
        missing: the same, not found.
        written: files and folders that were made or opened for writing.
        untracked: why nobody can tell whether the load would be the same again.
        environment: before the load, which may set variables itself.
        counts: whether the code that now runs is recorded, for an event of a kind.
    """

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    untracked: set[str] = field(default_factory=set)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    counts: Callable[[str], bool] = lambda kind: True


_active: list[Record] = []
_installed = threading.Event()


@contextmanager
def recorded(counts: Callable[[str], bool] = lambda kind: True) -> Iterator[Record]:
    """Record what everything in this process consults meanwhile, or the code that counts."""
    if not _installed.is_set():
        _installed.set()
        sys.addaudithook(_hear)
    record = Record(counts=counts)
    before, mapped = set(sys.modules), mapped_files()
    with ExitStack() as undo:
        undo.enter_context(_variables_into(record))
        undo.enter_context(_lookups_into(record))
        undo.enter_context(_native_into(record))
        _active.append(record)
        undo.callback(_active.remove, record)
        yield record
    record.files.update(name for name in mapped_files() - mapped if _is_users_file(name))
    for name in sorted(set(_UNSEEN_READERS) & (set(sys.modules) - before)):
        record.untracked.add(f"it imports {name}, which reads files unseen")


def _is_users_file(name: str) -> bool:
    return not name.startswith(_NO_FILES) and kind_of(name) == USER and os.path.isfile(name)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _active:
        return
    if event == "open":
        _hear_open(*arguments)
    elif event == "ctypes.dlopen":
        _note(_of_a_folder(arguments[0]), "files")
    elif event == "os.mkdir":
        _note(arguments[0], "written")
    elif event in ("os.listdir", "os.scandir"):
        _hear_list(arguments[0])
    elif event in _UNTRACKED and not _is_harmless(event):
        for record in _active:
            if record.counts("process"):
                record.untracked.add(_UNTRACKED[event])


def _hear_open(path: object, mode: object, flags: object) -> None:
    """Record what is opened to be read; ``r+`` reads as well, and ``w+`` what it wrote itself."""
    given = flags if isinstance(flags, int) else 0
    writes = given & (os.O_WRONLY | os.O_RDWR)
    if not writes or (given & os.O_RDWR and not given & (os.O_TRUNC | os.O_EXCL)):
        _note(path, "files")
    if writes:
        _note(path, "written")


def _of_a_folder(library: object) -> object:
    """A library's path; None for a name that the loader looks for in its own places."""
    return library if os.sep in str(library) else None


def _note(path: object, where: str) -> None:
    """Add a path to that set of each record."""
    if not isinstance(path, str | bytes | os.PathLike):
        return
    text = os.path.abspath(os.fsdecode(path))
    if not text.startswith(_NO_FILES) and "__pycache__" not in text:
        for record in _active:
            if record.counts(where):
                getattr(record, where).add(text)


def _hear_list(path: object) -> None:
    """Record a folder that code listed; folders that importing lists are checked by name."""
    importing = sys._getframe(2).f_code.co_filename.startswith("<frozen importlib")
    if isinstance(path, str | bytes | os.PathLike) and not importing:
        text = os.path.abspath(os.fsdecode(path))
        if not text.startswith(_NO_FILES) and not text.startswith(STDLIB):
            for record in _active:
                if record.counts("folders"):
                    record.folders.add(text)


def _is_harmless(event: str) -> bool:
    """Whether a package looks for its own tools while it is imported, as many do."""
    if not event.startswith("subprocess"):
        return False
    frame: Any = sys._getframe(2)
    installed = False
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return installed
        if not name.startswith(STDLIB) or "site-packages" in name:
            if "site-packages" not in name:
                return False
            installed = True
        frame = frame.f_back
    return False


@contextmanager
def _variables_into(record: Record) -> Iterator[None]:
    kind: Any = type(os.environ)
    original, every = kind.__getitem__, kind.__iter__

    def read(self: Any, name: Any) -> Any:
        text = os.fsdecode(name) if isinstance(name, str | bytes) else _OWN_PREFIX
        if not text.startswith(_OWN_PREFIX) and record.counts("variables"):
            record.variables.add(text)
        return original(self, name)

    def read_all(self: Any) -> Any:
        if asked_by_user():
            record.untracked.add("it reads all environment variables")
        return every(self)

    kind.__getitem__, kind.__iter__ = read, read_all
    try:
        yield
    finally:
        kind.__getitem__, kind.__iter__ = original, every


@contextmanager
def _lookups_into(record: Record) -> Iterator[None]:
    """Record what is looked for: what is there may go, and what is not may appear later on."""
    with ExitStack() as undo:
        for name in ("stat", "lstat", "access", "readlink"):
            original = getattr(os, name)
            setattr(os, name, _looking(original, record))
            undo.callback(setattr, os, name, original)
        yield


def _looking(original: Callable[..., Any], record: Record) -> Callable[..., Any]:
    def look(path: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            answer = original(path, *args, **kwargs)
        except (FileNotFoundError, NotADirectoryError):
            _note_lookup(path, record, is_there=False)
            raise
        _note_lookup(path, record, is_there=answer is not False)
        return answer

    return look


def _note_lookup(path: Any, record: Record, *, is_there: bool) -> None:
    """Record a lookup; what benchorch itself finds it opens as well."""
    if not isinstance(path, str | bytes | os.PathLike) or (is_there and not asker()):
        return
    text = os.path.abspath(os.fsdecode(path))
    if text.startswith(_NO_FILES) or (is_there and text.startswith(STDLIB)):
        return
    if record.counts("lookups"):
        (record.found if is_there else record.missing).add(text)


@contextmanager
def _native_into(record: Record) -> Iterator[None]:
    """Replace native readers, wherever they were imported to, by ones that report the path."""
    with ExitStack() as undo:
        for owner_name, readers in _NATIVE_READERS.items():
            try:
                owner = resolve_name(owner_name)
            except (ImportError, AttributeError):
                continue
            for name, position in readers:
                original = getattr(owner, name, None)
                if original is not None and isinstance(owner, type):  # inherited from native code
                    setattr(owner, name, staticmethod(_telling(original, position)))
                    undo.callback(delattr, owner, name)
                elif original is not None:
                    _replace(original, _telling(original, position), name, undo)
        yield


def _replace(original: Any, other: Any, name: str, undo: ExitStack) -> None:
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is original:
            setattr(module, name, other)
            undo.callback(setattr, module, name, original)


def _telling(original: Callable[..., Any], position: int) -> Callable[..., Any]:
    def reader(*args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if len(given) > position and isinstance(given[position], str | os.PathLike):
            _note(given[position], "files")
        return original(*args, **kwargs)

    return reader


def evidence(record: Record, files: Iterable[Path], texts: Iterable[str]) -> dict[str, Any]:
    """Current state of everything that a record read, as JSON.

    Args:
        record: of the load.
        files: of the user's code.
        texts: of the model's options that may name files, and lists of packages' files.
    """
    users = set(map(str, files))
    loaded = sorted({str(each) for each in _module_files()} - users)
    # Native code opens unheard what was looked for before.
    opened = {
        *record.files,
        *filter(os.path.isfile, record.found - record.written),
        *map(os.path.abspath, texts),
    }
    own = sorted(users | (opened - set(loaded)))
    places = sorted({*filter(_is_place, sys.path), *(str(path.parent) for path in files)})
    variables = sorted(record.variables - set(OWN_VARIABLES))
    return {
        "python": sys.version,
        "machine": _machine(),
        "path": _import_path(),
        "variables": {name: _variable(record.environment, name) for name in variables},
        "files": {name: _status(name, digest=True) for name in own},
        "loaded": {"names": loaded, "digest": _loaded_digest(loaded)},
        "places": {name: _importable(name) for name in places},
        "folders": {name: names_digest(name) for name in sorted(record.folders)},
        "found": {name: kind for name in sorted(record.found) if (kind := place_kind(name))},
        "missing": sorted(name for name in record.missing if not os.path.lexists(name)),
    }


def holds(seen: Mapping[str, Any]) -> bool:
    """Whether everything that was consulted is as it was; False for anything unreadable."""
    try:
        return (
            seen["python"] == sys.version
            and seen["machine"] == _machine()
            and seen["path"] == _import_path()
            and all(_variable(os.environ, name) == was for name, was in seen["variables"].items())
            and all(_importable(name) == was for name, was in seen["places"].items())
            and all(names_digest(name) == was for name, was in seen["folders"].items())
            and not any(map(os.path.lexists, seen["missing"]))
            and all(place_kind(name) == was for name, was in seen["found"].items())
            and all(_is_as_it_was(name, was) for name, was in seen["files"].items())
            and _loaded_digest(seen["loaded"]["names"]) == seen["loaded"]["digest"]
        )
    except (KeyError, TypeError, AttributeError, ValueError, OSError):
        return False


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


def place_kind(name: str) -> str:
    """``file``, ``folder`` or ``link`` without either; empty where there is nothing."""
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError):
        return "link" if os.path.lexists(name) else ""
    return "folder" if stat.S_ISDIR(mode) else "file"


def _is_place(name: str) -> bool:
    return os.path.isabs(name) and os.path.isdir(name) and not name.startswith(STDLIB + "/lib-dyn")


def _import_path() -> list[str]:
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    places = (os.path.abspath(each) for each in ("", *filter(None, given)))
    return [*dict.fromkeys(places), sys.prefix]


def _variable(environment: Mapping[str, str], name: str) -> str | None:
    value = environment.get(name)
    return None if value is None else sha256(value.encode(errors="replace")).hexdigest()


def _status(name: str, *, digest: bool) -> list[Any] | None:
    try:
        found = os.stat(os.fspath(name))  # a number would name a descriptor
    except OSError:
        return None
    small = digest and found.st_size <= _LARGEST_DIGESTED_BYTES and os.path.isfile(name)
    content = file_digest(Path(name)) if small else ""
    return [found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns, content]


def _is_as_it_was(name: str, was: list[Any] | None) -> bool:
    now = _status(name, digest=False)
    if was is None or now is None:
        return was is now
    if now[:-1] == was[:-1]:
        return True
    return bool(was[-1]) and now[0] == was[0] and file_digest(Path(name)) == was[-1]


def _loaded_digest(names: list[str]) -> str:
    """Over size, times and inode of every file that a loaded module is from."""
    return digest_of([_status(name, digest=False) for name in names])


def names_digest(folder: str) -> str:
    """Digest of the names in a folder; empty where there is none."""
    try:
        return digest_of(sorted(os.listdir(folder)))
    except OSError:
        return ""


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
    return f"{entry.name} {status.st_size} {status.st_mtime_ns}"


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
