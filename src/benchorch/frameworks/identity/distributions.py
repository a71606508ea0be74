"""Version and content of an installed distribution, as one short text."""

import csv
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

from benchorch.domain.artifact import digest_of
from benchorch.files import open_regular
from benchorch.frameworks.identity.owners import listing, normalised
from benchorch.host.environment import release

DIGITS = 16
_LARGEST_READ_BYTES = 32 * 2**20
"""Size limit of a distribution whose files are read; a larger one is identified by RECORD."""

CLOSED = frozenset(
    {"torch", "numpy", "scipy", "transformers", "triton", "lightning", "pytorch-lightning"}
)
"""Distributions whose own functions are not followed into other distributions."""


_BUILT_PER_DEVICE = frozenset({"torch"})  # whether or not the version has a device's tag


@cache
def installed(names: tuple[str, ...]) -> Mapping[str, str | None]:
    """`describe` of each distribution as a whole; None where it is missing."""
    found: dict[str, str | None] = dict.fromkeys(names)
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = describe(Distribution.from_name(name), ())
    return found


def describe(distribution: Distribution, reached: Iterable[Path]) -> str:
    """Version and digest: of every file where they are few, else of the RECORD and those reached.

    What differs between builds of one release for several devices leaves only the release and the
    files that were reached: they are the same module.
    """
    version = distribution.version
    plain = release(version)
    contents = {path.name: file_digest(path) for path in sorted(set(reached)) if path.is_file()}
    per_device = plain != version or normalised(distribution.name) in _BUILT_PER_DEVICE
    listed = {} if per_device else _listed(distribution)
    total = digest_of({"files": dict(contents), "listed": dict(listed)})
    return f"{plain} {total[:DIGITS]}"


def record_digest(distribution: Distribution) -> str:
    """SHA-256 (hex) of what a distribution's RECORD lists, or of its files where it has none."""
    return digest_of(dict(_listed(distribution)))


def is_closed(distribution: Distribution) -> bool:
    """Whether its functions are not followed further."""
    return normalised(distribution.name) in CLOSED


def _listed(distribution: Distribution) -> dict[str, str]:
    """Digest of each file that matters: as it is on the disk, or of a big one as RECORD has it."""
    rows = list(_rows(distribution))
    sizes = [int(size) for _, _, size in rows if size.isdigit()]
    if rows and sum(sizes) > _LARGEST_READ_BYTES:
        return {name: recorded for name, recorded, _ in rows}
    names = [name for name, _, _ in rows] or list(_found(distribution))
    found = ((name, Path(str(distribution.locate_file(name)))) for name in names)
    return {name: file_digest(path) for name, path in found if path.is_file()}


def _rows(distribution: Distribution) -> Iterator[tuple[str, str, str]]:
    """Name, digest and size of what an installer wrote, without what differs in each install."""
    for row in csv.reader(listing(distribution).splitlines()):
        name, recorded, size = [*row, "", ""][:3]
        if not name.startswith("..") and not _is_noise(name):
            yield name, recorded, size


def _is_noise(name: str) -> bool:
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


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
