"""Version and content of an installed distribution, as one short text."""

import base64
import csv
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.metadata import Distribution, PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path

from benchorch.domain.artifact import digest_of
from benchorch.domain.codec import Json
from benchorch.files import digest_once, file_digest
from benchorch.frameworks.identity.owners import listing, listing_files, name_of, normalised
from benchorch.host.environment import is_steady, release

DIGITS = 16
_LARGEST_READ_BYTES = 32 * 2**20
"""Size limit of a distribution whose files are read; a larger one is identified by RECORD."""

_LARGEST_LOADED_BYTES = 64 * 2**20
"""Size limit of a loaded file that is compared with RECORD by content, else by size."""

_UNLISTED = "-"
"""In place of a digest or a size that no RECORD has."""

_MAPPED = Path("/proc/self/maps")

CLOSED = frozenset(
    {"torch", "numpy", "scipy", "transformers", "triton", "lightning", "pytorch-lightning"}
)
"""Distributions whose own functions are not followed into other distributions."""


_SAYS_EDITABLE = re.compile(r'"editable"\s*:\s*true')
_OF_NOISE = re.compile(r"__pycache__|-info")
_BUILT_PER_DEVICE = frozenset({"torch"})  # whether or not the version has a device's tag


@cache
def installed(names: tuple[str, ...]) -> Mapping[str, str | None]:
    """`describe` of each distribution as a whole, as it is on the disk; None where it is missing.

    A module of it that was edited in place counts, loaded or not, and so do all files of an
    editable one, of which the installer lists none.
    """
    found: dict[str, str | None] = dict.fromkeys(names)
    for name in names:
        with suppress(PackageNotFoundError):
            distribution = Distribution.from_name(name)
            found[name] = _described(distribution, (), _edited(distribution))
    return found


def describe(
    distribution: Distribution, reached: Iterable[Path], *, is_loaded: bool = False
) -> str:
    """Version and digest: of every file where they are few, else of the RECORD and those reached.

    What differs between builds of one release for several devices leaves only the release and the
    files that were reached: they are the same module. Of what this process has loaded, each file
    that is no longer as RECORD has it counts as well.
    """
    is_compared = is_loaded and not _is_read(distribution)
    return _described(distribution, reached, _altered(distribution) if is_compared else {})


def _described(
    distribution: Distribution, reached: Iterable[Path], altered: Mapping[str, str]
) -> str:
    contents = {path.name: file_digest(path) for path in sorted(set(reached)) if path.is_file()}
    listed = {} if _is_per_device(distribution) else _listed(distribution)
    found: dict[str, Json] = {"files": dict(contents), "listed": dict(listed)}
    found.update({"altered": dict(altered)} if altered else {})
    return f"{release(distribution.version)} {digest_of(found)[:DIGITS]}"


def _is_per_device(distribution: Distribution) -> bool:
    version = distribution.version
    return release(version) != version or normalised(name_of(distribution)) in _BUILT_PER_DEVICE


def _is_read(distribution: Distribution) -> bool:
    """Whether the digest is of every listed file as it is on the disk."""
    return not (_is_per_device(distribution) or _are_many_bytes(_rows(distribution)))


def record_digest(distribution: Distribution) -> str:
    """SHA-256 (hex) of what a distribution's RECORD lists, or of its files where it has none."""
    return digest_of(dict(_listed(distribution)))


def is_closed(distribution: Distribution) -> bool:
    """Whether its functions are not followed further."""
    return normalised(name_of(distribution)) in CLOSED


def _listed(distribution: Distribution) -> dict[str, str]:
    """Digest of each file that matters: as it is on the disk, or of a big one as RECORD has it."""
    rows = _rows(distribution)
    if _are_many_bytes(rows):
        return {name: recorded for name, recorded, _ in rows}
    names = [name for name, _, _ in rows] or list(_found(distribution))
    found = ((name, Path(str(distribution.locate_file(name)))) for name in names)
    return {name: file_digest(path) for name, path in found if path.is_file()}


def _are_many_bytes(rows: Iterable[tuple[str, str, str]]) -> bool:
    return sum(int(size) for _, _, size in rows if size.isdigit()) > _LARGEST_READ_BYTES


def _rows(distribution: Distribution) -> Sequence[tuple[str, str, str]]:
    """Name, digest and size of what an installer wrote, without what differs in each install."""
    return _parsed(listing(distribution))


@lru_cache(maxsize=16)  # torch's has 12,000 rows, which each module of a process asks for
def _parsed(listed: str) -> Sequence[tuple[str, str, str]]:
    padded = ([*row, "", ""][:3] for row in csv.reader(listed.splitlines()))
    return [
        (name, recorded, size)
        for name, recorded, size in padded
        if not name.startswith("..") and not _is_noise(name)
    ]


def _altered(distribution: Distribution) -> dict[str, str]:
    """Digest of each loaded file that is not as RECORD has it."""
    rows = {name: (digest, size) for name, digest, size in _rows(distribution)}
    place = f"{Path(str(distribution.locate_file('')))}/"
    inside = {file.removeprefix(place) for file in _loaded() if file.startswith(place)}
    found = (
        (name, _difference(Path(place, name), *rows[name])) for name in sorted(inside & {*rows})
    )
    return {name: digest for name, digest in found if digest}


def _edited(distribution: Distribution) -> dict[str, str]:
    """Digest of each Python file that is not as RECORD has it; of an editable one, of every file.

    What has the recorded size and is no younger than RECORD is taken to be as it was installed.
    """
    if _is_editable(distribution):
        return dict(_sources(distribution))
    if _is_read(distribution):
        return {}
    place = Path(str(distribution.locate_file("")))
    recorded_ns = max((_changed_ns(Path(file)) for file in listing_files(distribution)), default=0)
    found = (
        (name, _difference(place / name, recorded, size))
        for name, recorded, size in _rows(distribution)
        if name.endswith(".py") and not _is_untouched(place / name, size, recorded_ns)
    )
    return {name: digest for name, digest in found if digest}


def _is_untouched(path: Path, size: str, recorded_ns: int) -> bool:
    with suppress(OSError):
        now = path.stat()
        return size == str(now.st_size) and now.st_mtime_ns <= recorded_ns
    return False


def _changed_ns(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return 0


def _is_editable(distribution: Distribution) -> bool:
    """Whether it is imported from a folder of sources, of which its list has no module."""
    if _SAYS_EDITABLE.search(distribution.read_text("direct_url.json") or ""):
        return True
    names = [name for name, _, _ in _rows(distribution)]
    return bool(names) and not any(map(_is_module, names))


def _is_module(name: str) -> bool:
    return name.endswith((".py", ".so", ".pyd")) and not name.startswith("__editable__")


def _sources(distribution: Distribution) -> Iterator[tuple[str, str]]:
    """Each file that importing its top-level packages may lead to, with its digest."""
    for spec in filter(None, map(find_spec, _tops(distribution))):
        for folder in map(Path, spec.submodule_search_locations or ()):
            for file in sorted(folder.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    inside = file.relative_to(folder).as_posix()
                    yield f"{spec.name}/{inside}", _difference(file, _UNLISTED, _UNLISTED)
        if spec.submodule_search_locations is None and spec.has_location:
            yield f"{spec.name}.py", file_digest(Path(str(spec.origin)))


def _tops(distribution: Distribution) -> Sequence[str]:
    """Names of its top-level packages and modules."""
    listed = (distribution.read_text("top_level.txt") or "").split()
    return listed or [normalised(name_of(distribution)).replace("-", "_")]


def _difference(path: Path, recorded: str, size: str) -> str:
    """Digest of a file, or its size where it is a big one; empty where that is the recorded one."""
    try:
        now = path.stat()
        if now.st_size > _LARGEST_LOADED_BYTES:
            return "" if size == str(now.st_size) else str(now.st_size)
        # Once a process: torch has a thousand loaded files, and each of its modules asks for them.
        digest = digest_once(path) if is_steady(now) else file_digest(path)
    except OSError:
        return "(unreadable)"
    spelled = base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")
    return "" if recorded in ("", f"sha256={spelled}") else digest


def _loaded() -> Iterator[str]:
    """Files of modules in this process, and of the libraries that those loaded."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    files.update(mapped_files())
    yield from sorted(file for file in files if isinstance(file, str) and file.startswith("/"))


def mapped_files() -> set[str]:
    """Files that this process has mapped, libraries among them; none where nothing tells."""
    with suppress(OSError):
        lines = os.fsdecode(_MAPPED.read_bytes()).split("\n")
        found = (line.split(maxsplit=5)[-1] for line in lines if line)
        return {*filter(os.path.isabs, found)}
    return set()


def _is_noise(name: str) -> bool:
    if name.strip("./") and not _OF_NOISE.search(name):  # nearly all: a RECORD has 10,000 rows
        return False
    parts = Path(name).parts
    return not parts or "__pycache__" in parts or parts[0].endswith((".dist-info", ".egg-info"))


def _found(distribution: Distribution) -> Iterator[str]:
    """Files below the top-level names of a distribution without RECORD."""
    for top in _tops(distribution):
        root = Path(str(distribution.locate_file("")))
        inside = sorted((root / top).rglob("*")) if (root / top).is_dir() else [root / f"{top}.py"]
        for path in inside:
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(root).as_posix()
