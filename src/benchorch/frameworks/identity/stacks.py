"""Whose code runs now, by the names of the files on the stack.

Nothing here touches a file system, as it is called for each access to one.
"""

import re
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from benchorch.frameworks.identity.owners import BENCHORCH, OWN_FOLDER, PYTHON, USER

IMPORTING: Final = "importing"
PACKAGE: Final = "package"
TORCH: Final = "torch"

STDLIB: Final = sysconfig.get_paths()["stdlib"]
_HERE = str(Path(__file__).parent)
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/(\w+)")
_COMPILERS = ("torch", "triton", "torchgen", "functorch")
_SOURCE_READERS = tuple(
    f"{STDLIB}/{name}"
    for name in ("warnings.py", "traceback.py", "inspect.py", "logging/__init__.py")
)
"""Parts of Python that show source lines and times to people, on behalf of any code."""


@lru_cache(maxsize=65536)
def kind_of(file: str) -> str:
    """The owner of a file of code; empty for generated code, and for that of this folder."""
    if file.startswith("<frozen importlib"):
        return IMPORTING
    if file.startswith(("<", _HERE)):
        return ""
    if file.startswith(str(OWN_FOLDER)):
        return BENCHORCH
    installed = _INSTALLED.search(file)
    if installed is not None:
        return TORCH if installed[1] in _COMPILERS else PACKAGE
    return PYTHON if file.startswith(STDLIB) else USER


def asker() -> str:
    """The owner of the code that called Python's own; empty where none but benchorch did."""
    for kind in _kinds(sys._getframe(2)):
        if kind != PYTHON:
            return "" if kind == BENCHORCH else kind
    return ""


def asked_by_user() -> bool:
    """Whether the code that called Python's own is the user's, and no package's."""
    return asker() == USER


def asker_of_model() -> str:
    """The same for what a model's call does: empty also for imports, messages and torch alone.

    A package's or torch's code counts where it was called by the user's; a package's also where
    nothing but torch called it, as it does a module's forward. What Python's own code does in a
    thread that nobody else's code runs in is the user's: a pool was given it.
    """
    first, packages = "", False
    for kind in _kinds(sys._getframe(2)):
        if kind == IMPORTING:
            return ""
        if kind == BENCHORCH:
            return first if packages else ""
        if kind == PYTHON:
            continue
        first = first or kind
        if kind == USER:
            return first
        packages = packages or kind == PACKAGE
    if not first:
        return USER
    return first if packages else ""


def _kinds(frame: Any) -> Iterator[str]:
    """Owners from the innermost frame outwards; what shows sources counts as importing."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file in _SOURCE_READERS:
            yield IMPORTING
        kind = kind_of(file)
        outer, frame = frame, frame.f_back
        if kind == IMPORTING and _reads_data(outer):
            continue
        if kind:
            yield kind


def _reads_data(frame: Any) -> bool:
    """Whether code asks a loader for a package's data, as `pkgutil.get_data` does."""
    caller = frame.f_back.f_code.co_filename if frame.f_back else ""
    return frame.f_code.co_name == "get_data" and kind_of(caller) != IMPORTING
