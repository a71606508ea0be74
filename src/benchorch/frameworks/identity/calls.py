"""Whatever a model's calls consult beyond the module: files, variables, code, the date.

No walk over a module finds a file whose name its forward computes. So the calls that make the
reference are recorded, and what they consulted has to be the same before anything that was built
for that reference is used again. What cannot be compared never is.
"""

from __future__ import annotations

import builtins
import datetime
import itertools
import os
import platform
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import Distribution
from pathlib import Path, PurePath
from tempfile import gettempdir
from types import CodeType
from typing import Any, Final, TypeAlias

from benchorch.domain.trial import ConfigNode
from benchorch.files import file_digest
from benchorch.frameworks.identity.code import file_names, file_syntax_digest
from benchorch.frameworks.identity.consulted import LoadReads, recorded
from benchorch.frameworks.identity.distributions import CLOSED, installed
from benchorch.frameworks.identity.evidence import today
from benchorch.frameworks.identity.owners import USER, FileOwners, module_label, name_of, normalised
from benchorch.frameworks.identity.places import (
    SIZES,
    TIMES,
    entries_digest,
    link_target,
    names_digest,
    permissions,
    place_kind,
)
from benchorch.frameworks.identity.stacks import (
    PACKAGE,
    TORCH,
    asker_of_model,
    kind_of,
    shows_time,
)
from benchorch.frameworks.identity.start import Start
from benchorch.frameworks.identity.variables import variable_digest

Consulted: TypeAlias = Mapping[str, Mapping[str, str]]
"""State by name, in groups: ``files``, ``environment``, ``code``, ..."""

NEVER: Final = "never"
"""Group of what cannot be compared, by the reason; its state is the invocation."""

BASELINE: Final = "baseline"
"""Group with a digest of the reference outputs, where those of an equal model were others."""

_LARGEST_DIGESTED_BYTES = 64 * 2**20
_CACHES = ("/.triton/cache/", "/torch_compile_debug/")
_PACKAGES = re.compile(r".*/(?:site|dist)-packages(?:/|$)")
_LOCAL = "<locals>"
_DIGITS = 32
_READS_TIMES = frozenset(
    {"getmtime", "st_mtime", "st_mtime_ns", "getctime", "st_ctime", "st_ctime_ns"}
)
"""By which code reads when a file changed."""

_READS_SIZES = frozenset({"st_size"})
_MOST_TEXTS, _LONGEST_NAME = 10_000, 1024
_PLAIN = (str, bytes, list, dict, set, tuple, int, float)
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
    "date": today,
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
    record: LoadReads = field(default_factory=LoadReads)
    _executed: set[str] = field(default_factory=set)
    _unreached: set[str] = field(default_factory=set)
    _package_files: dict[str, set[str]] = field(default_factory=dict)
    _facts: set[str] = field(default_factory=set)
    _reads: set[str] = field(default_factory=set)
    _named: set[Path] = field(default_factory=set)
    _texts: set[str] = field(default_factory=set)
    _known: set[int] = field(default_factory=set)
    _kept: list[CodeType] = field(default_factory=list)

    def state(self, invocation: str, start: Start) -> Consulted:
        """State now of all that was consulted; arguments as of `current`."""
        record = self.record
        gone = {name for name in record.written if not place_kind(name)}
        # Whoever looks for a file may ask for its size; native code opens what forward names.
        named = record.found | {*map(str, self._named)} | {*map(os.path.abspath, self._texts)}
        opened = (record.files | {*filter(os.path.isfile, named - record.written)}) - gone
        files = {*itertools.filterfalse(partial(_is_cache, start), opened)}
        looked = {*_not_above(start, (record.found | record.missing) - gone - files)}
        scanned = record.scanned - gone
        variables = record.lasting_variables
        if _below_temporary(start, (files | looked) - record.written):
            variables.add("TMPDIR")
        packages = self._distributions()
        code = self._unreached and {*self._unreached, *_users_files()}
        if not all(map(place_kind, code)):
            record.untracked.add("it runs code of no file")
        names = {
            "files": map(start.portable, files),
            "folders": map(start.portable, filter(_may_change, record.folders - gone)),
            "places": map(start.portable, looked),
            "links": map(start.portable, _not_above(start, record.links)),
            "permissions": map(start.portable, record.asked - gone),
            "sizes": map(start.portable, scanned if self._reads & _READS_SIZES else ()),
            "times": map(
                start.portable,
                scanned | (record.found - gone) if self._reads & _READS_TIMES else (),
            ),
            "environment": variables,
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
            if kind_of(code.co_filename) in (PACKAGE, TORCH) and _is_users(frame.f_back):
                self._take_texts(frame)
        elif event == "c_call":
            if _is_users(frame) and not _is_harmless(argument):
                self._take_texts(frame)
            shown = shows_time(frame.f_code.co_filename)
            if _takes_date(argument) and not shown and asker_of_model() in (USER, PACKAGE):
                self.record.untracked.add("it reads the date")
            elif argument in _FACT_OF_BUILTIN and asker_of_model() == USER:
                self._facts.add(_FACT_OF_BUILTIN[argument])

    def _take_texts(self, frame: Any) -> None:
        """Note what a package is given by the user's code: its native code opens files unheard."""
        for value in frame.f_locals.values():
            if isinstance(value, str | bytes | PurePath) and len(self._texts) < _MOST_TEXTS:
                text = os.fsdecode(value)
                if 0 < len(text) < _LONGEST_NAME and text.isprintable():
                    self._texts.add(text)

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
            self._reads.update((_READS_SIZES | _READS_TIMES).intersection(code.co_names))
        if kind == USER:
            self._call_of_user(frame, code)
        self._kept.append(code)  # an id is another object's once its owner is gone
        self._known.add(id(code))

    def _call_of_user(self, frame: Any, code: CodeType) -> None:
        """A function of the user's: reached, part of one that was, or known by its file alone.

        A file that it names counts as opened: native code opens files unheard.
        """
        self._reads.update((_READS_SIZES | _READS_TIMES).intersection(code.co_names))
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
        owners, found = FileOwners(), set()
        for file, labels in self._package_files.items():
            owner = owners.of_file(file)
            if isinstance(owner, Distribution):
                found.add(normalised(name_of(owner)))
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
        "links": lambda name: start.portable(link_target(str(start.place(name)))),
        "permissions": lambda name: permissions(str(start.place(name))),
        "sizes": lambda name: entries_digest(str(start.place(name)), SIZES)[:_DIGITS],
        "times": lambda name: _time(start.place(name)),
        "environment": lambda name: _value(start, name),
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
    """When a file changed; of a folder also when each file in it did."""
    try:
        return f"{path.stat().st_mtime_ns} {entries_digest(str(path), TIMES)[:_DIGITS]}".strip()
    except (OSError, ValueError):
        return ""


def _code(path: Path) -> str:
    try:
        return file_syntax_digest(path)[:_DIGITS]
    except (OSError, ValueError):
        return ""


def _value(start: Start, name: str) -> str:
    return (variable_digest(start.environment, name) or "(not set)")[:_DIGITS]


def _may_change(folder: str) -> bool:
    """Whether a folder's names count; not those of all packages, which packages look through."""
    return not _PACKAGES.match(folder)


def _is_cache(start: Start, name: str) -> bool:
    """Whether a file is a compiler's own."""
    roots = (start.environment.get("TORCHINDUCTOR_CACHE_DIR"), f"{gettempdir()}/torchinductor_")
    return name.startswith(tuple(filter(None, roots))) or any(one in name for one in _CACHES)


def _not_above(start: Start, names: Iterable[str]) -> Iterator[str]:
    """Names that are not those of folders which the project is in: it may be moved."""
    above = {f"{folder}/" for _, folder in start.folders()}
    for name in names:
        if not any(folder.startswith(f"{name}/") for folder in above):
            yield name


def _takes_date(function: Any) -> bool:
    """Whether it is one of `_DATES`, or the same method of a class that derives from theirs."""
    if function in _DATES:
        return True
    kind = getattr(function, "__self__", None)
    is_date = isinstance(kind, type) and issubclass(kind, datetime.date)
    return is_date and function.__name__ in ("now", "utcnow", "today")


def _below_temporary(start: Start, names: Iterable[str]) -> bool:
    """Whether any file is below the folder for temporary files, and none of the project's."""
    place = f"{gettempdir()}/"
    own = tuple(f"{folder}/" for _, folder in start.folders())
    found = [name for name in names if name.startswith(place)]
    return bool(found) and (
        place.startswith(own) or not all(name.startswith(own) for name in found)
    )


def _is_users(frame: Any) -> bool:
    return frame is not None and kind_of(frame.f_code.co_filename) == USER


def _is_harmless(function: Any) -> bool:
    """Whether a native function is one of torch's, of a tensor or of Python's plain values."""
    owner = getattr(function, "__self__", None)
    if owner is builtins or isinstance(owner, _PLAIN):
        return True
    module = getattr(function, "__module__", None) or type(owner).__module__
    return str(module).startswith("torch")


def _is_closed(file: str) -> bool:
    return any(f"-packages/{name}/" in file for name in CLOSED)


def _users_files() -> Iterator[str]:
    """Files of all the user's modules that are loaded."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.startswith("/") and file.endswith(".py"):
            yield from [file] if kind_of(file) == USER else []
