"""Which packages outside this one may add conversions: those that a person has installed.

A distribution names its package in the entry point group ``benchorch.extensions``. Its classes may
then be named by ``_target_``, and its ``conf`` folder is looked in before the built-in one.
"""

import contextlib
import os
import sys
from functools import cache
from pathlib import Path

GROUP = "benchorch.extensions"


@cache
def extensions() -> tuple[str, ...]:
    """The packages that installed distributions name, sorted; nothing of them is imported."""
    places = [place for place in _installed_places() if _may_name_one(place)]
    if not places:
        return ()
    from importlib.metadata import distributions

    named = {
        entry.value
        for distribution in distributions(path=places)
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


def _may_name_one(place: str) -> bool:
    """Whether a distribution there mentions the group: most mention nothing like it.

    Reading all entry points takes longer than all else of a small plan's imports.
    """
    try:
        entries = os.listdir(place)  # noqa: PTH208 - a path for each is slow
    except OSError:
        return Path(place).is_file()  # an archive
    folders = [entry for entry in entries if entry.endswith((".dist-info", ".egg-info"))]
    return place.endswith(".egg") or any(_mentions_it(f"{place}/{name}") for name in folders)


def _mentions_it(folder: str) -> bool:
    with contextlib.suppress(OSError), Path(folder, "entry_points.txt").open("rb") as file:
        return GROUP.encode() in file.read()
    return False


def _locations(package: str) -> list[str]:
    from importlib.util import find_spec

    # A distribution that names a package it does not have is of no use, and no harm to the others.
    with contextlib.suppress(ImportError, SyntaxError, ValueError):
        spec = find_spec(package)
        return list(spec.submodule_search_locations or ()) if spec else []
    return []
