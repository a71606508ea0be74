"""Owner of a Python file: the user, Python itself, benchorch, or an installed distribution."""

import re
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

USER = "user"
PYTHON = "python"
BENCHORCH = "benchorch"

Owner: TypeAlias = str | Distribution
"""Owner of code: one of the three words, or an installed distribution."""

_OWN_PACKAGES = ("benchorch", "hydra_plugins")  # told by their versions, which enter every key
_OWN_NAME = re.compile(r"(\w+)_[0-9a-f]{8}")
_LISTED_IN = ("RECORD", "installed-files.txt")


@dataclass(slots=True)
class FileOwners:
    """Owners of files, each found once."""

    _by_place: dict[tuple[Path, str], Sequence[Distribution]] = field(default_factory=dict)
    _by_file: dict[str, Owner] = field(default_factory=dict)

    def of_module(self, name: str) -> Owner:
        """The owner of a loaded module; Python's for built-in ones, the user's for made-up ones."""
        if name.partition(".")[0] in _OWN_PACKAGES:
            return BENCHORCH
        if name in sys.builtin_module_names:
            return PYTHON
        module = sys.modules.get(name)
        parent = name.rpartition(".")[0]
        file = getattr(module, "__file__", None)
        if file is None or (parent and not Path(file).is_absolute()):
            folders = list(getattr(module, "__dict__", {}).get("__path__", []))
            if folders:
                return self.of_file(str(Path(folders[0]) / "__init__.py"))
            if parent in sys.modules:  # torch has modules that are no files
                return self.of_module(parent)
            return PYTHON if name.partition(".")[0] in sys.stdlib_module_names else USER
        return self.of_file(file)

    def of_file(self, file: str) -> Owner:
        """Owner of a file, by its location and by the distribution that lists it."""
        if file not in self._by_file:
            self._by_file[file] = self._find(Path(file))
        return self._by_file[file]

    def _find(self, path: Path) -> Owner:
        places = {path: None, path.resolve(): None}
        if any(each.is_relative_to(OWN_FOLDER) for each in places):
            return BENCHORCH
        for each in places:
            for place in map(Path, sys.path):
                if place.is_absolute() and each.is_relative_to(place):
                    found = self._installer(place, each.relative_to(place).as_posix())
                    if found is not None:
                        return found
        inside = any(each.is_relative_to(place) for each in places for place in _stdlib())
        outside = any("site-packages" in each.parts for each in places)
        return PYTHON if (inside and not outside) or str(path).startswith("<frozen") else USER

    def _installer(self, place: Path, relative: str) -> Distribution | None:
        top = relative.partition("/")[0]
        key = (place, top)
        if key not in self._by_place:
            self._by_place[key] = [one for one in _installed_in(str(place)) if _mentions(one, top)]
        candidates = self._by_place[key]
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        exact = [one for one in candidates if f"\n{relative}," in f"\n{listing(one)}"]
        return (exact or candidates)[0]


OWN_FOLDER = Path(__file__).resolve().parents[2]


@lru_cache(maxsize=1)
def _stdlib() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple({Path(paths[name]).resolve() for name in ("stdlib", "platstdlib")})


@lru_cache(maxsize=64)
def _installed_in(place: str) -> Sequence[Distribution]:
    found = MetadataPathFinder.find_distributions(DistributionFinder.Context(path=[place]))
    installed = Path(place).name in ("site-packages", "dist-packages")
    # A build leaves an egg-info beside the sources: they are the user's all the same.
    return [one for one in found if installed or not _is_egg(one) or listing(one)]


def _is_egg(distribution: Distribution) -> bool:
    return str(getattr(distribution, "_path", "")).endswith(".egg-info")


def _mentions(distribution: Distribution, top: str) -> bool:
    """Whether its metadata list a top-level name there."""
    listed = _listed_tops(distribution)
    if listed:
        return top in listed
    stem = top.partition(".")[0]
    tops = (distribution.read_text("top_level.txt") or "").split()
    return stem in tops or normalised(name_of(distribution)) == normalised(stem)


@lru_cache(maxsize=1024)  # which importlib parses anew each time, and each function asks for it
def name_of(distribution: Distribution) -> str:
    """A distribution's name, as its metadata spell it."""
    return distribution.name


@lru_cache(maxsize=1024)  # a process asks hundreds of distributions for each package it reaches
def _listed_tops(distribution: Distribution) -> frozenset[str]:
    paths = (line.partition(",")[0] for line in listing(distribution).splitlines())
    return frozenset(path.partition("/")[0] for path in paths)


def listing(distribution: Distribution) -> str:
    """Files listed by its metadata, one a line; empty without a list."""
    return next(filter(None, (_read(distribution, name) for name in _LISTED_IN)), "")


def listing_files(distribution: Distribution) -> list[str]:
    """Paths of that metadata, whether or not they exist: each installation writes it anew."""
    folder = getattr(distribution, "_path", None)
    return [f"{folder}/{name}" for name in _LISTED_IN] if folder else []


def _read(distribution: Distribution, name: str) -> str:
    return distribution.read_text(name) or ""


def normalised(name: str) -> str:
    """A distribution's name as packaging tools compare it."""
    return re.sub(r"[-_.]+", "-", name or "").lower()


def module_label(module: ModuleType | str | None) -> str:
    """Name of a module, without parts that reveal the location of its file."""
    name = module if isinstance(module, str) else getattr(module, "__name__", "")
    loaded = sys.modules.get(name or "")
    file = getattr(loaded, "__file__", None)
    found = _OWN_NAME.fullmatch(name or "")
    return found[1] if found and file and Path(file).stem == found[1] else str(name)
