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

GENERATED: Final = "generated"
IMPORTING: Final = "importing"
SHOWING: Final = "showing"
PACKAGE: Final = "package"
TORCH: Final = "torch"

STDLIB: Final = sysconfig.get_paths()["stdlib"]
_HERE = f"{Path(__file__).parent}/"
_OWN = f"{OWN_FOLDER}/"
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/(\w+)")
_COMPILERS = ("torch", "triton", "torchgen", "functorch")
_SOURCE_READERS = tuple(
    f"{STDLIB}/{name}"
    for name in ("warnings.py", "traceback.py", "inspect.py", "logging/__init__.py")
)
"""Parts of Python that show source lines and times to people, on behalf of any code."""

_SHOWS_TIME = re.compile(r".*/(?:site|dist)-packages/(?:tqdm|rich|loguru|structlog|progressbar)/")


@lru_cache(maxsize=65536)
def kind_of(file: str) -> str:
    """The owner of a file of code; empty for the code of this folder, and frozen code."""
    if file.startswith("<frozen importlib"):
        return IMPORTING
    if file.startswith(("<frozen", _HERE)):
        return ""
    if file.startswith("<"):
        return GENERATED
    if file.startswith(_OWN):
        return BENCHORCH
    installed = _INSTALLED.search(file)
    if installed is not None:
        return TORCH if installed[1] in _COMPILERS else PACKAGE
    return PYTHON if file.startswith(STDLIB) else USER


def shows_time(file: str) -> bool:
    """Whether a file is of a package that takes the time to show people how much has passed."""
    return bool(_SHOWS_TIME.match(file))


def asker() -> str:
    """The owner of the code that called Python's own; empty where none but benchorch did."""
    for kind in _kinds(sys._getframe(2)):
        if kind not in (PYTHON, GENERATED):
            return "" if kind == BENCHORCH else kind
    return ""


def asked_by_user() -> bool:
    """Whether the code that called Python's own is the user's, and no package's."""
    return asker() == USER


def asker_of_model() -> str:
    """The same for what a model's call does: empty also for imports, messages and torch alone.

    A package's or torch's code counts where it was called by the user's; a package's also where
    nothing but torch called it, as it does a module's forward. What a package does while the user's
    code imports it counts, and so does generated code that nobody else's called. What Python's own
    code does in a thread that nobody else's code runs in is the user's: a pool was given it.
    """
    first, packages, imports, generated = "", False, False, False
    for kind in _kinds(sys._getframe(2)):
        if kind == SHOWING or (kind == IMPORTING and not packages):
            return ""
        if kind == BENCHORCH:
            return first if packages else USER if generated else ""
        generated |= kind == GENERATED
        imports |= kind == IMPORTING
        if kind in (PYTHON, GENERATED, IMPORTING):
            continue
        if kind == TORCH and imports:
            return ""
        imports = False
        first = first or kind
        if kind == USER:
            return first
        packages = packages or kind == PACKAGE
    if not first:
        return USER
    return first if packages else ""


def _kinds(frame: Any) -> Iterator[str]:
    """Owners from the innermost frame outwards."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file in _SOURCE_READERS:
            yield SHOWING
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
