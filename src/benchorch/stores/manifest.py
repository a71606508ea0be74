"""Manifests of entries, and the verification of files against them.

::

    <entry>/manifest.json   what determines the artifact, and every file's size and SHA-256
    <entry>/files/          the artifact
    <entry>/verified.json   the files' status when their bytes were last compared

Files whose inode, size and times are those of the last comparison are not read again.
"""

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from benchorch.domain.artifact import Artifact, Format, digest_of
from benchorch.domain.bounds import Amount, Count
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.trial import ConfigNode
from benchorch.errors import StoreError
from benchorch.files import file_digest, read_small, write_json
from benchorch.interfaces.store import Entry
from benchorch.units import s_to_ns

MANIFEST, FILES, VERIFIED = "manifest.json", "files", "verified.json"
COMPLETE, FAILED, QUARANTINED, DROPPED = "complete", "failed", "quarantined", "dropped"

SETTLE_S = 0.02
"""File times advance in ticks of up to 10 ms and two changes within one are indistinguishable, so a
file's status is recorded only if it has not changed for longer."""

_LONGEST_NAME_BYTES = 255  # of any common file system

_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of the process that reads, whatever it reads."""

# Errors from reading a file that anybody may have written.
_NONSENSE = (OSError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)


class CorruptEntry(StoreError):
    """An entry that does not match its own manifest; it never leaves the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """File of an artifact, with its path relative to `FILES` in forward slashes."""

    path: str
    size_bytes: Count
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Signature of an entry's builder, see `stores.signing`: public key and hexadecimal digits."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """An `Entry` as it is stored.

    Schema history: 1, first; later, within 1, the signature.
    """

    key: str
    name: str
    format: Format
    fields: ConfigNode
    created_at: str
    build_s: Amount = 0.0
    state: str = COMPLETE
    detail: str = ""
    files: tuple[FileRecord, ...] = ()
    signature: Signature | None = None
    schema_version: int = 1


def now() -> str:
    """The date and time for people to read; no decision depends on it."""
    return datetime.now(UTC).isoformat()


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Store a manifest, whole or not at all."""
    write_json(directory / MANIFEST, encode(manifest))


def read_manifest(directory: Path) -> Manifest:
    """The manifest of an entry; CorruptEntry if there is no valid one."""
    try:
        return parse_manifest(read_small(directory / MANIFEST))
    except OSError as error:
        raise _unreadable(f"{MANIFEST} cannot be read: {error}", error) from error


def _unreadable(problem: str, error: Exception) -> StoreError:
    """CorruptEntry, or another StoreError where the entry may be intact."""
    if isinstance(error, OSError) and error.errno in _SHORTAGES:
        return StoreError(problem)
    return CorruptEntry(problem)


def parse_manifest(content: bytes) -> Manifest:
    """The manifest from its bytes; CorruptEntry if they are no valid one."""
    try:
        manifest = decode(Manifest, json.loads(content))
        paths = [file.path for file in manifest.files]
        valid = _are_apart(paths) and all(map(_is_valid_file, manifest.files))
    except _NONSENSE as error:
        raise CorruptEntry(f"{MANIFEST} cannot be read: {error}") from error
    if not valid:
        raise CorruptEntry(f"{MANIFEST} is not a manifest")
    return manifest


def _is_valid_file(file: FileRecord) -> bool:
    """Whether it can be a file of an artifact: its path leads nowhere else."""
    parts = file.path.split("/")
    return (
        not {"", ".", ".."} & set(parts)
        and "\0" not in file.path
        and all(len(os.fsencode(part)) <= _LONGEST_NAME_BYTES for part in parts)
        and re.fullmatch("[0-9a-f]{64}", file.sha256) is not None
    )


def _are_apart(paths: Sequence[str]) -> bool:
    """Whether no path is named twice, nor is a directory of another."""
    files = set(paths)
    above = {str(parent) for path in files for parent in PurePosixPath(path).parents}
    return len(files) == len(paths) and not files & above


def to_entry(manifest: Manifest, directory: Path, remote: str = "") -> Entry:
    """The entry in a directory, or one elsewhere that would be downloaded to it."""
    artifact = Artifact(
        key=manifest.key,
        format=manifest.format,
        path=directory / FILES,
        size_bytes=sum(file.size_bytes for file in manifest.files),
        build_s=manifest.build_s,
    )
    return Entry(
        artifact=artifact,
        name=manifest.name,
        fields=manifest.fields,
        created_at=manifest.created_at,
        state=manifest.state,
        detail=manifest.detail,
        remote=remote,
        signed_by=manifest.signature.key if manifest.signature else "",
    )


Prove = Callable[[Json], str]
"""What only this machine can write about a value; empty where it has no key."""


def seal(
    directory: Path, draft: Manifest, sign: Callable[[Manifest], Manifest], prove: Prove
) -> Manifest:
    """Write the signed manifest of a new entry, with every file."""
    found, settled = _file_status(directory)
    files = tuple(
        FileRecord(path=path, size_bytes=status[1], sha256=file_digest(directory / FILES / path))
        for path, status in sorted(found.items())
    )
    manifest = sign(replace(draft, files=files))
    write_manifest(directory, manifest)
    if settled:
        _remember(directory, prove(_verification(manifest, found)))
    return manifest


def verified(directory: Path, key: str, format: Format | None, prove: Prove) -> Manifest:
    """The manifest of an intact entry of that key; CorruptEntry if it is not one."""
    manifest = of_key(read_manifest(directory), key, format)
    try:
        _verify_files(directory, manifest, prove)
    except _NONSENSE as error:
        raise _unreadable(f"{directory} cannot be read: {error}", error) from error
    return manifest


def of_key(manifest: Manifest, key: str, format: Format | None) -> Manifest:
    """The manifest itself; CorruptEntry unless it is of a complete artifact of this key.

    Args:
        manifest: as it was read.
        key: what it must be of.
        format: what its files will be loaded as; None where nobody loads them.
    """
    try:
        own = digest_of(dict(manifest.fields))
    except _NONSENSE as error:
        raise CorruptEntry(f"it cannot be read: {error}") from error
    if manifest.state != COMPLETE:
        raise CorruptEntry(f"its state is {manifest.state!r}")
    if manifest.key != key or own != key:
        raise CorruptEntry("it belongs to another key than the one it is stored under")
    if format is not None and manifest.format != format:
        raise CorruptEntry(f"its format is {manifest.format!r} instead of {format!r}")
    return manifest


def _verify_files(directory: Path, manifest: Manifest, prove: Prove) -> None:
    found, settled = _file_status(directory)
    recorded = {file.path: file for file in manifest.files}
    for path in sorted(recorded.keys() ^ found.keys()):
        raise CorruptEntry(f"{path} is {'missing' if path in recorded else 'not part of it'}")
    for path, file in recorded.items():
        if found[path][1] != file.size_bytes:
            raise CorruptEntry(f"{path} has {found[path][1]} bytes instead of {file.size_bytes}")
    proof = prove(_verification(manifest, found))
    if proof and _last_verification(directory) == proof:
        return
    for path, file in recorded.items():
        if file_digest(directory / FILES / path) != file.sha256:
            raise CorruptEntry(f"{path} has other bytes than were built")
    if settled:
        _remember(directory, proof)


_Status = list[int]
"""A file's inode, size in bytes, and times of its last change of content and of status in ns."""


def _file_status(directory: Path) -> tuple[dict[str, _Status], bool]:
    """Each file's status, and whether any later change is sure to show in it."""
    now_ns = s_to_ns(datetime.now(UTC).timestamp() - SETTLE_S)
    files = {path: _status(path, stats) for path, stats in _walk(directory / FILES)}
    return files, all(max(status[2:]) < now_ns for status in files.values())


def _status(path: str, stats: os.stat_result) -> _Status:
    if not stat.S_ISREG(stats.st_mode):
        raise CorruptEntry(f"{path} is not a plain file")
    return [stats.st_ino, stats.st_size, stats.st_mtime_ns, stats.st_ctime_ns]


def _walk(directory: Path, prefix: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Every file below a directory, and every link, which is not followed."""
    with os.scandir(directory) as found:
        for item in found:
            if item.is_dir(follow_symlinks=False):
                yield from _walk(Path(item.path), f"{prefix}{item.name}/")
            else:
                yield f"{prefix}{item.name}", item.stat(follow_symlinks=False)


def _verification(manifest: Manifest, found: Mapping[str, _Status]) -> Json:
    return {"manifest": digest_of(encode(manifest)), "files": found}


def _last_verification(directory: Path) -> Json:
    try:
        recorded: Json = json.loads(read_small(directory / VERIFIED))
    except (OSError, ValueError, RecursionError):  # nothing is recorded: the bytes are compared
        return None
    return recorded


def _remember(directory: Path, proof: str) -> None:
    """Record the files' status from before their bytes were compared; losing it is harmless.

    It is what only this machine can write: others who can write here would spare their files the
    comparison.
    """
    note = directory / f".{VERIFIED}.{secrets.token_hex(8)}"
    with suppress(OSError):
        note.write_text(json.dumps(proof), encoding="utf-8")
        note.replace(directory / VERIFIED)
