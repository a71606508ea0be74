"""Files, folders and environment variables read by a load, and whether they are unchanged.

Python reports each file that it opens. The few native readers that open files themselves are
wrapped while a load is recorded.
"""

import importlib.util
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

from benchorch.domain.artifact import digest_of
from benchorch.files import file_digest
from benchorch.frameworks.identity.distributions import mapped_files
from benchorch.frameworks.identity.owners import USER
from benchorch.frameworks.identity.places import (
    SIZES,
    TIMES,
    absolute,
    entries_digest,
    is_file_of_nobody,
    link_target,
    named_by_library,
    names_digest,
    permissions,
    place_kind,
    users_libraries,
)
from benchorch.frameworks.identity.stacks import STDLIB, asked_by_user, asker, kind_of

_UNTRACKED: Final = {
    "socket.connect": "it opens a network connection",
    "socket.getaddrinfo": "it looks up a network address",
    "socket.gethostbyname": "it looks up a network address",
    "socket.gethostbyaddr": "it looks up a network address",
    "socket.getnameinfo": "it looks up a network address",
    "socket.sendto": "it sends a datagram",
    "socket.sendmsg": "it sends a datagram",
    "socket.bind": "it opens a network port",
    "subprocess.Popen": "it starts a process",
    "os.system": "it starts a process",
    "os.fork": "it starts a process",
    "os.forkpty": "it starts a process",
    "os.exec": "it starts a process",
    "os.posix_spawn": "it starts a process",
    "os.spawn": "it starts a process",
    "sqlite3.connect": "it opens a database",
    "os.getxattr": "it reads attributes of a file",
    "os.listxattr": "it reads attributes of a file",
}
_UNTRACKED_CALLS: Final = {
    "_posixsubprocess": ("fork_exec", "it starts a process"),
    "_posixshmem": ("shm_open", "it opens shared memory"),
}
"""Native functions that nothing else tells of, by their module; what they do."""

_OF_THE_C_LIBRARY = frozenset(
    {"getenv", "secure_getenv", "time", "gettimeofday", "clock_gettime", "localtime", "gethostname"}
    | {"popen", "system", "fork", "vfork", "execv", "execve", "execvp", "connect", "getaddrinfo"}
)
"""Native functions by which code reads what no file holds."""

_NATIVE_READERS = {
    "safetensors": (("safe_open", 0),),
    "torch._C": (("PyTorchFileReader", 0), ("import_ir_module", 1)),
    "torch": (("from_file", 0),),
    "torch:UntypedStorage": (("from_file", 0),),
    "tokenizers:Tokenizer": (("from_file", 0),),
}
"""Callables that open a file without Python, by their module or class; which argument names it."""

UNSEEN_READERS: Final = frozenset(
    {"h5py", "pyarrow", "lmdb", "cv2", "tables", "netCDF4", "sentencepiece", "polars"}
    | {"xgboost", "lightgbm", "catboost", "fasttext", "faiss", "openvino", "datasets"}
)
"""Packages that read files without Python."""

_ALSO_IMPORTED_UNUSED = frozenset({"pyarrow"})  # by pandas, which opens its files itself

OWN_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONPATH")
_OWN_PREFIX = "BENCHORCH"
_OF_A_TERMINAL = frozenset(
    {"PWD", "OLDPWD", "SHLVL", "_", "TERM", "COLUMNS", "LINES", "DISPLAY", "WINDOWID", "STY"}
    | {"TMPDIR", "HYDRA_FULL_ERROR", "MPLBACKEND", "PYTHONFAULTHANDLER"}
)
_PREFIXES_OF_A_TERMINAL = (
    *(_OWN_PREFIX, "SSH_", "TERM_", "TMUX", "VSCODE_", "PYTEST_"),
    *("XDG_SESSION", "XDG_RUNTIME", "XDG_CURRENT", "XDG_SEAT", "XDG_VTNR", "XDG_MENU"),
)
"""Variables that are others in each terminal, and those of benchorch itself."""

_OF_A_PROCESS = _OF_A_TERMINAL.union(
    OWN_VARIABLES, ("HF_HUB_DISABLE_TELEMETRY", "TOKENIZERS_PARALLELISM")
)
"""The same, with those that benchorch sets for its processes."""

ALL_VARIABLES: Final = "*"
"""Stands for the names of all variables, those of a terminal aside."""

_READ_BY_NATIVE_CODE = (
    *("LANG", "LC_", "TZ", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "ATEN_", "TORCH_", "PYTORCH_"),
    *("ONEDNN_", "DNNL_", "MKL_", "KMP_", "OMP_", "GOMP_", "OPENBLAS_", "BLIS_", "GLIBC_"),
    *("PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONHOME", "PYTHONWARNINGS", "PYTHONUTF8"),
)
"""Beginnings of names of variables that no Python code has to read to depend on them."""

_LARGEST_DIGESTED_BYTES = 64 * 2**20


@dataclass(slots=True)
class Record:
    """Reads of one load.

    Attributes:
        files: that were opened for reading, found or not.
        folders: whose names were listed.
        scanned: those of them whose entries tell more than their names.
        links: what was looked for as symbolic links are.
        asked: files for which it was asked what this process may do with them.
        variables: environment variables that were read.
        named: those of them that the user's own code read, and no package for it.
        found: files and folders that were looked for and found.
        missing: the same, not found.
        written: files and folders that were made or opened for writing.
        untracked: why nobody can tell whether the load would be the same again.
        environment: before the load, which may set variables itself.
        counts: whether the code that now runs is recorded, for an event of a kind.
    """

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    scanned: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
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
        undo.enter_context(_variables_heard())
        undo.enter_context(_lookups_heard())
        undo.enter_context(_native_heard())
        _active.append(record)
        undo.callback(_active.remove, record)
        yield record
    record.files.update(name for name in mapped_files() - mapped if _is_users_file(name))
    for library in users_libraries():
        variables, files = named_by_library(library)
        record.variables.update(variables)
        record.files.update(files)
    imported = (set(sys.modules) - before) - _ALSO_IMPORTED_UNUSED
    for name in sorted(UNSEEN_READERS & imported):
        record.untracked.add(f"it imports {name}, which reads files unseen")


def _is_users_file(name: str) -> bool:
    return not is_file_of_nobody(name) and kind_of(name) == USER and os.path.isfile(name)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _active:
        return
    if event == "open":
        _hear_open(*arguments)
    elif event == "ctypes.dlopen":
        _note(_of_a_folder(arguments[0]), "files")
    elif event == "ctypes.dlsym":
        if arguments[1] in _OF_THE_C_LIBRARY and asked_by_user():
            _never(f"it calls {arguments[1]} of the C library")
    elif event == "os.mkdir":
        _note(arguments[0], "written")
    elif event in ("os.listdir", "os.scandir"):
        _hear_list(arguments[0], is_scan=event == "os.scandir")
    elif event in _UNTRACKED and not _is_harmless(event):
        _never(_UNTRACKED[event])


def _never(why: str) -> None:
    """Note in each record that nobody can compare what is done."""
    for record in _active:
        if record.counts("process"):
            record.untracked.add(why)


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


def _note(path: object, where: str, folder: object = None) -> None:
    """Add a path to that set of each record."""
    text = absolute(path, folder)
    if text and not is_file_of_nobody(text) and "__pycache__" not in text:
        for record in _active:
            if record.counts(where):
                getattr(record, where).add(text)


def _hear_list(path: object, *, is_scan: bool) -> None:
    """Record a folder that code listed; folders that importing lists are checked by name."""
    frame: Any = sys._getframe(2)
    file = frame.f_code.co_filename
    text = absolute(path)
    if not text or file.startswith("<frozen importlib"):
        return
    if not is_file_of_nobody(text) and not text.startswith(STDLIB):
        for record in _active:
            if record.counts("folders"):
                record.folders.add(text)
                # Python's own asks entries for their kind alone, and packages are told otherwise.
                if is_scan and not file.startswith(STDLIB) and "-packages/" not in text:
                    record.scanned.add(text)


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
def _variables_heard() -> Iterator[None]:
    kind: Any = type(os.environ)
    original, every = kind.__getitem__, kind.__iter__

    def read(self: Any, name: Any) -> Any:
        _hear_variable(os.fsdecode(name) if isinstance(name, str | bytes) else "")
        return original(self, name)

    def read_all(self: Any) -> Any:
        for record in _active:
            if asked_by_user():
                record.untracked.add("it reads all environment variables")
            elif record.counts("variables"):
                record.variables.add(ALL_VARIABLES)
        return every(self)

    kind.__getitem__, kind.__iter__ = read, read_all
    try:
        yield
    finally:
        kind.__getitem__, kind.__iter__ = original, every


def _hear_variable(name: str) -> None:
    """Record a variable; of those that are others in each terminal what the user's code reads."""
    is_named = is_of_process(name) and _is_read_by_user()
    for record in _active if name else ():
        if record.counts("variables") and (is_named or not name.startswith(_OWN_PREFIX)):
            record.variables.add(name)
            if is_named:
                record.named.add(name)


def _is_read_by_user() -> bool:
    """Whether the user's code reads a variable itself, and nothing in between."""
    frame: Any = sys._getframe(3)
    while frame is not None and frame.f_code.co_filename.endswith(_OF_VARIABLES):
        frame = frame.f_back
    return frame is not None and kind_of(frame.f_code.co_filename) == USER


_OF_VARIABLES = ("<frozen os>", "<frozen _collections_abc>", "/os.py", "/_collections_abc.py")


def is_of_process(name: str) -> bool:
    """Whether a variable is another in each terminal or process."""
    return name in _OF_A_PROCESS or name.startswith(_PREFIXES_OF_A_TERMINAL)


def native_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that native code is known to read, with their values."""
    names = (name for name in environment if name.startswith(_READ_BY_NATIVE_CODE))
    return {name: environment[name] for name in sorted(names) if name not in OWN_VARIABLES}


def variable_digest(environment: Mapping[str, str], name: str) -> str | None:
    """SHA-256 (hex) of a variable's value, or of all names; None where it is not set."""
    if name == ALL_VARIABLES:
        return digest_of(sorted(one for one in environment if not is_of_process(one)))
    value = environment.get(name)
    return None if value is None else sha256(value.encode(errors="replace")).hexdigest()


@contextmanager
def _lookups_heard() -> Iterator[None]:
    """Record what is looked for: what is there may go, and what is not may appear later on.

    A function that the user's code has imported meanwhile goes on telling whatever records then.
    """
    with ExitStack() as undo:
        for name in ("stat", "lstat", "access", "readlink", "open"):
            original = getattr(os, name)
            other = _opening(original) if name == "open" else _looking(original, name)
            setattr(os, name, other)
            undo.callback(setattr, os, name, original)
            for able in [one for one in _ABILITIES if original in one]:  # code looks it up there
                able.add(other)
                undo.callback(able.discard, other)
        yield


_ABILITIES: Final[tuple[set[Any], ...]] = (
    *(os.supports_dir_fd, os.supports_fd),
    *(os.supports_follow_symlinks, os.supports_effective_ids),
)


def _looking(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    where = {"readlink": "links", "lstat": "links", "access": "asked"}.get(name, "")

    def look(path: Any, *args: Any, **kwargs: Any) -> Any:
        place = absolute(path, kwargs.get("dir_fd")) if _active else ""
        try:
            answer = original(path, *args, **kwargs)
        except (FileNotFoundError, NotADirectoryError):
            _note_lookup(place, is_there=False)
            raise
        _note_lookup(place, is_there=answer is not False)
        if where and (where == "links" or args[:1] != (os.F_OK,)):
            _note(place or None, where)
        return answer

    return look


def _opening(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same of what opens a file below an open folder, whose path nothing else tells."""

    def opened(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
        if _active and isinstance(kwargs.get("dir_fd"), int):
            _hear_open(absolute(path, kwargs["dir_fd"]), None, flags)
        return original(path, flags, *args, **kwargs)

    return opened


def _note_lookup(text: str, *, is_there: bool) -> None:
    """Record a lookup; what benchorch itself finds it opens as well."""
    if not text or (is_there and not asker()):
        return
    if is_file_of_nobody(text) or (is_there and text.startswith(STDLIB)):
        return
    for record in _active:
        if record.counts("lookups"):
            (record.found if is_there else record.missing).add(text)


@contextmanager
def _native_heard() -> Iterator[None]:
    """Replace native readers, wherever they were imported to, by ones that report the path."""
    with ExitStack() as undo:
        for name, (function, why) in _UNTRACKED_CALLS.items():
            with suppress(ImportError, AttributeError):
                original = resolve_name(f"{name}:{function}")
                _replace(original, _warning(original, why), function, undo)
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


def _warning(original: Callable[..., Any], why: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        _never(why)
        return original(*args, **kwargs)

    return function


def evidence(
    record: Record, files: Iterable[Path], texts: Iterable[str], *, day: str = ""
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
    places = sorted({*filter(_is_place, sys.path), *beside, *_package_folders()})
    variables = sorted(record.variables - set(OWN_VARIABLES))
    return {
        "python": sys.version,
        "day": day,
        "machine": _machine(),
        "path": _import_path(),
        "variables": {name: variable_digest(record.environment, name) for name in variables},
        "files": {name: _status(name, digest=True) for name in own},
        "loaded": {"names": loaded, "digest": _loaded_digest(loaded)},
        "places": {name: _importable(name) for name in places},
        "folders": {name: names_digest(name) for name in sorted(record.folders)},
        "entries": {name: _entries(name) for name in sorted(record.scanned)},
        "links": {name: link_target(name) for name in sorted(record.links)},
        "asked": {name: permissions(name) for name in sorted(record.asked)},
        "found": {name: kind for name in sorted(record.found) if (kind := place_kind(name))},
        "missing": sorted(name for name in record.missing if not os.path.lexists(name)),
    }


def holds(seen: Mapping[str, Any]) -> bool:
    """Whether everything that was consulted is as it was; False for anything unreadable."""
    try:
        return (
            seen["python"] == sys.version
            and seen["day"] in ("", today())
            and seen["machine"] == _machine()
            and seen["path"] == _import_path()
            and all(
                variable_digest(os.environ, name) == was for name, was in seen["variables"].items()
            )
            and all(_importable(name) == was for name, was in seen["places"].items())
            and all(names_digest(name) == was for name, was in seen["folders"].items())
            and all(_entries(name) == was for name, was in seen["entries"].items())
            and all(link_target(name) == was for name, was in seen["links"].items())
            and all(permissions(name) == was for name, was in seen["asked"].items())
            and not any(map(os.path.lexists, seen["missing"]))
            and all(place_kind(name) == was for name, was in seen["found"].items())
            and all(_is_as_it_was(name, was) for name, was in seen["files"].items())
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
