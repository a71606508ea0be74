"""Whatever a model's calls consult beyond the module: files, variables, code, the date.

No walk over a module finds a file whose name its forward computes. So the calls that make the
reference are recorded, and what they consulted has to be the same before anything that was built
for that reference is used again. What cannot be compared never is.
"""

from __future__ import annotations

import datetime
import itertools
import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import Distribution
from pathlib import Path
from types import CodeType
from typing import Any, Final, TypeAlias

from benchorch.domain.trial import ConfigNode
from benchorch.files import file_digest
from benchorch.frameworks.identity.code import file_names, file_syntax_digest
from benchorch.frameworks.identity.consulted import (
    OWN_VARIABLES,
    Record,
    names_digest,
    place_kind,
    recorded,
)
from benchorch.frameworks.identity.distributions import CLOSED, installed
from benchorch.frameworks.identity.owners import USER, Owners, module_label, normalised
from benchorch.frameworks.identity.stacks import PACKAGE, asker_of_model, kind_of
from benchorch.frameworks.identity.start import Start

Consulted: TypeAlias = Mapping[str, Mapping[str, str]]
"""State by name, in groups: ``files``, ``environment``, ``code``, ..."""

NEVER: Final = "never"
"""Group of what cannot be compared, by the reason; its state is the invocation."""

BASELINE: Final = "baseline"
"""Group with a digest of the reference outputs, where those of an equal model were others."""

_OF_A_TERMINAL = frozenset(
    {"PWD", "OLDPWD", "SHLVL", "_", "TERM", "COLUMNS", "LINES", "DISPLAY", "WINDOWID", "STY"}
    | {"TMPDIR", "HYDRA_FULL_ERROR", "MPLBACKEND"}
)
_PREFIXES_OF_A_TERMINAL = ("BENCHORCH", "SSH_", "XDG_", "TERM_", "TMUX", "VSCODE_", "PYTEST_")
"""Variables that are others in each terminal, and those of benchorch itself."""

_LARGEST_DIGESTED_BYTES = 64 * 2**20
_CACHES = ("torchinductor", "/.triton/", "/torch_compile_debug/")
_LOCAL = "<locals>"
_DIGITS = 32
_TIMES = frozenset({"getmtime", "st_mtime", "st_mtime_ns", "getctime", "st_ctime", "st_ctime_ns"})
"""By which code reads when a file changed."""
_PART_OF_ANOTHER = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")

_DATES: Final[frozenset[Any]] = frozenset(
    {time.localtime, time.gmtime, time.ctime, time.asctime, time.strftime}
    | {datetime.datetime.now, datetime.datetime.utcnow, datetime.datetime.today}
    | {datetime.date.today}
)
"""Callables whose answers may be the same for hours, so that no two runs in a row differ.

Of seconds only their day counts: most take them to measure, and other uses differ at once.
"""

_FACTS: Final[Mapping[str, Callable[[], object]]] = {
    "cpu_count": os.cpu_count,
    "date": lambda: time.strftime("%Y-%m-%d"),
    "hostname": socket.gethostname,
    "uname": lambda: tuple(platform.uname())[:5],
    "user": getattr(os, "getuid", int),
}
_FACT_OF_BUILTIN: Final[Mapping[Any, str]] = {
    **dict.fromkeys((getattr(time, name) for name in ("time", "time_ns")), "date"),
    os.cpu_count: "cpu_count",
    socket.gethostname: "hostname",
    getattr(os, "uname", None): "uname",
    getattr(os, "getuid", None): "user",
}
_UNAME: Final = platform.uname.__code__


@dataclass(slots=True)
class Calls:
    """What a model's calls consulted.

    Attributes:
        reached: labels of the user's functions that a walk over the module reached.
        packages: names of the distributions that it reached.
        record: of files and variables.
    """

    reached: Collection[str]
    packages: Collection[str]
    record: Record = field(default_factory=Record)
    _executed: set[str] = field(default_factory=set)
    _unreached: set[str] = field(default_factory=set)
    _package_files: dict[str, set[str]] = field(default_factory=dict)
    _facts: set[str] = field(default_factory=set)
    _reads_times: bool = False
    _named: set[Path] = field(default_factory=set)
    _known: set[int] = field(default_factory=set)
    _kept: list[CodeType] = field(default_factory=list)

    def state(self, invocation: str, start: Start) -> Consulted:
        """State now of all that was consulted; arguments as of `current`."""
        record = self.record
        gone = {name for name in record.written if not place_kind(name)}
        # Whoever looks for a file may ask for its size; native code opens what forward names.
        named = record.found | {*map(str, self._named)}
        opened = (record.files | {*filter(os.path.isfile, named - record.written)}) - gone
        files = {name for name in opened if not any(one in name for one in _CACHES)}
        above = {folder for _, folder in start.folders()}
        looked = {
            name
            for name in (record.found | record.missing) - gone - files
            if not any(f"{folder}/".startswith(f"{name}/") for folder in above)
        }
        packages = self._distributions()
        code = self._unreached and {*self._unreached, *_users_files()}
        if not all(map(place_kind, code)):
            record.untracked.add("it runs code of no file")
        names = {
            "files": map(start.portable, files),
            "folders": map(start.portable, filter(_may_change, record.folders - gone)),
            "places": map(start.portable, looked),
            "times": map(start.portable, record.found - gone if self._reads_times else ()),
            "environment": itertools.filterfalse(_is_of_process, record.variables),
            "code": map(start.portable, code),
            "packages": packages,
            "facts": self._facts,
            NEVER: record.untracked,
        }
        found = {group: [*some] for group, some in names.items()}
        return current(found, invocation, start)

    def hear(self, frame: Any, event: str, argument: Any) -> None:
        """Note what is called; a profiler's function."""
        if event == "call":
            code = frame.f_code
            if id(code) not in self._known:
                self._call(frame, code)
        elif event == "c_call":
            if argument in _DATES and asker_of_model() in (USER, PACKAGE):
                self.record.untracked.add("it reads the date")
            elif argument in _FACT_OF_BUILTIN and asker_of_model() == USER:
                self._facts.add(_FACT_OF_BUILTIN[argument])

    def _call(self, frame: Any, code: CodeType) -> None:
        kind = kind_of(code.co_filename)
        if code is _UNAME:  # it remembers its answer
            if asker_of_model() == USER:
                self._facts.add("uname")
            return
        if kind == PACKAGE:
            if not self._is_called_by_models(frame.f_back):
                return
            label = f"{module_label(frame.f_globals.get('__name__'))}.{code.co_qualname}"
            self._package_files.setdefault(code.co_filename, set()).add(label)
        if kind == USER:
            self._call_of_user(frame, code)
        self._kept.append(code)  # an id is another object's once its owner is gone
        self._known.add(id(code))

    def _call_of_user(self, frame: Any, code: CodeType) -> None:
        """A function of the user's: reached, part of one that was, or known by its file alone.

        A file that it names counts as opened: native code opens files unheard.
        """
        self._reads_times |= bool(_TIMES.intersection(code.co_names))
        here = (Path.cwd(), Path(code.co_filename).parent)
        names = [*file_names((*code.co_consts, *map(frame.f_globals.get, code.co_names)))]
        self._named.update(folder / name for folder in here for name in names)
        module = module_label(frame.f_globals.get("__name__"))
        label = f"{module}.{code.co_qualname}"
        whole = f"{module.partition('.')[0]}.<file>"
        outer = label.rpartition(f".{_LOCAL}.")[0]
        if label in self.reached or whole in self.reached or outer in self._executed:
            self._executed.add(label)
        elif code.co_name not in _PART_OF_ANOTHER:
            self._unreached.add(code.co_filename)

    def _is_called_by_models(self, caller: Any) -> bool:
        """Whether the user's code called a package's, or an open package that this called."""
        file = caller.f_code.co_filename if caller else ""
        return kind_of(file) == USER or (file in self._package_files and not _is_closed(file))

    def _distributions(self) -> set[str]:
        """Names of distributions that were not reached; a file of none counts as the user's."""
        owners, found = Owners(), set()
        for file, labels in self._package_files.items():
            owner = owners.of_file(file)
            if isinstance(owner, Distribution):
                found.add(normalised(owner.name))
            elif not labels <= {*self.reached}:
                self._unreached.add(file)
        return found - {normalised(name) for name in self.packages}


@contextmanager
def observed(identity: ConfigNode) -> Iterator[Calls]:
    """Record what calls meanwhile consult, beside what an identity covers.

    Args:
        identity: of the module, as a walk over it made it.
    """
    code, packages = identity.get("code"), identity.get("packages")
    calls = Calls(
        reached={str(label).partition("#")[0] for label in _names(code)},
        packages=_names(packages),
    )
    with recorded(_is_models) as calls.record, _profiled(calls):
        yield calls


def _names(group: object) -> list[str]:
    return [*map(str, group)] if isinstance(group, Mapping) else []


def _is_models(kind: str) -> bool:
    """Whether the code that now runs is the model's; of torch's own only what it opens."""
    asker = asker_of_model()
    return bool(asker) if kind == "files" else asker in (USER, PACKAGE)


@contextmanager
def _profiled(calls: Calls) -> Iterator[None]:
    """Hear of each call in this thread and in new ones, unless somebody else listens."""
    if sys.getprofile() is not None:
        calls.record.untracked.add("another profiler hides what it calls")
        yield
        return
    before = threading.getprofile()
    threading.setprofile(calls.hear)
    sys.setprofile(calls.hear)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(before)


def current(names: Mapping[str, Collection[str]], invocation: str, start: Start) -> Consulted:
    """State now of what calls consulted.

    Args:
        names: in groups, as `Calls.state` has them.
        invocation: which no other invocation is equal to.
        start: of this process.
    """
    states: Mapping[str, Callable[[str], str]] = {
        "files": lambda name: _file(start.place(name)),
        "folders": lambda name: names_digest(str(start.place(name)))[:_DIGITS],
        "places": lambda name: place_kind(str(start.place(name))),
        "times": lambda name: _time(start.place(name)),
        "environment": lambda name: _value(start.environment.get(name)),
        "code": lambda name: _code(start.place(name)),
        "packages": lambda name: installed((name,))[name] or "(not installed)",
        "facts": lambda name: repr(_FACTS[name]()) if name in _FACTS else "",
        NEVER: lambda _: invocation,
    }
    return {
        group: {name: states[group](name) for name in sorted(some)}
        for group, some in sorted(names.items())
        if some and group in states
    }


def _file(path: Path) -> str:
    try:
        status = path.stat()
        if status.st_size > _LARGEST_DIGESTED_BYTES:
            return f"{status.st_size} {status.st_mtime_ns}"
        return file_digest(path)[:_DIGITS]
    except (OSError, ValueError):
        return ""


def _time(path: Path) -> str:
    try:
        return str(path.stat().st_mtime_ns)
    except (OSError, ValueError):
        return ""


def _code(path: Path) -> str:
    try:
        return file_syntax_digest(path)[:_DIGITS]
    except (OSError, ValueError):
        return ""


def _value(value: str | None) -> str:
    if value is None:
        return "(not set)"
    return sha256(value.encode(errors="replace")).hexdigest()[:_DIGITS]


def _may_change(folder: str) -> bool:
    """Whether a folder's names count; not those of all packages, which packages look through."""
    return "-packages" not in folder


def _is_of_process(name: str) -> bool:
    return name in {*OWN_VARIABLES, *_OF_A_TERMINAL} or name.startswith(_PREFIXES_OF_A_TERMINAL)


def _is_closed(file: str) -> bool:
    return any(f"-packages/{name}/" in file for name in CLOSED)


def _users_files() -> Iterator[str]:
    """Files of all the user's modules that are loaded."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.startswith("/") and file.endswith(".py"):
            yield from [file] if kind_of(file) == USER else []
