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
from pathlib import Path

from benchorch.domain.artifact import digest_of
from benchorch.domain.codec import Json
from benchorch.files import digest_once, file_digest
from benchorch.frameworks.identity.owners import listing, normalised
from benchorch.host.environment import is_steady, release

DIGITS = 16
_LARGEST_READ_BYTES = 32 * 2**20
"""Size limit of a distribution whose files are read; a larger one is identified by RECORD."""

_LARGEST_LOADED_BYTES = 64 * 2**20
"""Size limit of a loaded file that is compared with RECORD by content, else by size."""

_MAPPED = Path("/proc/self/maps")

CLOSED = frozenset(
    {"torch", "numpy", "scipy", "transformers", "triton", "lightning", "pytorch-lightning"}
)
"""Distributions whose own functions are not followed into other distributions."""


_OF_NOISE = re.compile(r"__pycache__|-info")
_BUILT_PER_DEVICE = frozenset({"torch"})  # whether or not the version has a device's tag


@cache
def installed(names: tuple[str, ...]) -> Mapping[str, str | None]:
    """`describe` of each distribution as a whole; None where it is missing."""
    found: dict[str, str | None] = dict.fromkeys(names)
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = describe(Distribution.from_name(name), ())
    return found


def describe(
    distribution: Distribution, reached: Iterable[Path], *, is_loaded: bool = False
) -> str:
    """Version and digest: of every file where they are few, else of the RECORD and those reached.

    What differs between builds of one release for several devices leaves only the release and the
    files that were reached: they are the same module. Of what this process has loaded, each file
    that is no longer as RECORD has it counts as well.
    """
    version = distribution.version
    plain = release(version)
    contents = {path.name: file_digest(path) for path in sorted(set(reached)) if path.is_file()}
    per_device = plain != version or normalised(distribution.name) in _BUILT_PER_DEVICE
    listed = {} if per_device else _listed(distribution)
    found: dict[str, Json] = {"files": dict(contents), "listed": dict(listed)}
    if is_loaded and (per_device or _are_many_bytes(_rows(distribution))):
        altered = _altered(distribution)
        found.update({"altered": dict(altered)} if altered else {})
    return f"{plain} {digest_of(found)[:DIGITS]}"


def record_digest(distribution: Distribution) -> str:
    """SHA-256 (hex) of what a distribution's RECORD lists, or of its files where it has none."""
    return digest_of(dict(_listed(distribution)))


def is_closed(distribution: Distribution) -> bool:
    """Whether its functions are not followed further."""
    return normalised(distribution.name) in CLOSED


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
    tops = (distribution.read_text("top_level.txt") or "").split()
    for top in tops or [normalised(distribution.name).replace("-", "_")]:
        root = Path(str(distribution.locate_file("")))
        inside = sorted((root / top).rglob("*")) if (root / top).is_dir() else [root / f"{top}.py"]
        for path in inside:
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(root).as_posix()
