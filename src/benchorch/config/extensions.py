"""Which packages outside this one may add conversions: those that a person has installed.

A distribution names its package in the entry point group ``benchorch.extensions``. Its classes may
then be named by ``_target_``, and its ``conf`` folder is looked in before the built-in one.
"""

import contextlib
import sys
from functools import cache
from pathlib import Path

GROUP = "benchorch.extensions"


@cache
def extensions() -> tuple[str, ...]:
    """The packages that installed distributions name, sorted; nothing of them is imported."""
    from importlib.metadata import distributions

    named = {
        entry.value
        for distribution in distributions(path=_installed_places())
        for entry in distribution.entry_points
        if entry.group == GROUP
    }
    return tuple(sorted(named))


def extension_prefixes() -> tuple[str, ...]:
    """What a ``_target_`` of an extension begins with."""
    return tuple(f"{package}." for package in extensions())


def extension_directories() -> tuple[Path, ...]:
    """The ``conf`` folders of those packages that have one."""
    folders = [Path(place) / "conf" for package in extensions() for place in _locations(package)]
    return tuple(folder for folder in folders if folder.is_dir())


def _installed_places() -> list[str]:
    """Without the current folder: lying in it is not being installed."""
    here = Path.cwd().resolve()
    return [place for place in sys.path if place and Path(place).resolve() != here]


def _locations(package: str) -> list[str]:
    from importlib.util import find_spec

    # A distribution that names a package it does not have is of no use, and no harm to the others.
    with contextlib.suppress(ImportError, SyntaxError, ValueError):
        spec = find_spec(package)
        return list(spec.submodule_search_locations or ()) if spec else []
    return []
