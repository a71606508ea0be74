"""Files, folders and environment variables that a load reads.

Python reports each file that it opens. The few native readers that open files themselves are
wrapped while a load is recorded.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import filterfalse
from pkgutil import resolve_name
from typing import Any, Final

from benchorch.frameworks.identity.distributions import mapped_files
from benchorch.frameworks.identity.libraries import named_by_library, users_libraries
from benchorch.frameworks.identity.owners import USER
from benchorch.frameworks.identity.places import absolute, is_file_of_nobody
from benchorch.frameworks.identity.stacks import (
    PACKAGE,
    STDLIB,
    TORCH,
    asked_by_user,
    asker,
    kind_of,
)
from benchorch.frameworks.identity.variables import ALL_VARIABLES, OWN_PREFIX, is_of_process

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


@dataclass(slots=True)
class LoadReads:
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

    @property
    def lasting_variables(self) -> set[str]:
        """Variables but those of each terminal or process, unless the user's own code read them."""
        # Another thread may record one meanwhile.
        return {*filterfalse(is_of_process, self.variables.copy()), *self.named}


_active: list[LoadReads] = []
_installed = threading.Event()


@contextmanager
def recorded(counts: Callable[[str], bool] = lambda kind: True) -> Iterator[LoadReads]:
    """Record what everything in this process consults meanwhile, or the code that counts."""
    if not _installed.is_set():
        _installed.set()
        sys.addaudithook(_hear)
    record = LoadReads(counts=counts)
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
    is_packages = kind_of(text) in (PACKAGE, TORCH)
    if not is_file_of_nobody(text) and not text.startswith(STDLIB):
        for record in _active:
            if record.counts("folders"):
                record.folders.add(text)
                # Python's own asks entries for their kind alone, and packages are told otherwise.
                if is_scan and not file.startswith(STDLIB) and not is_packages:
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
        if record.counts("variables") and (is_named or not name.startswith(OWN_PREFIX)):
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
