"""Artifacts in object storage: published whole, verified by their bytes.

::

    artifacts/<key>/manifest.json   written last: without it there is no artifact
    artifacts/<key>/files/<sha256>  each file under the digest of its bytes
    names/<digest>/<key>            the keys of a name; the digest is of the name
    leases/<key>                    which machine builds that key, see `stores.lease`
    quarantine/<key>-<n>/           corrupt entries, each with its reason.json

A file's path is in the manifest only and never becomes part of an object's name. Another build of
the same key never changes a file that is being read.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import final

from benchorch.domain.artifact import Artifact, Format
from benchorch.domain.codec import encode
from benchorch.errors import StoreError
from benchorch.interfaces.store import Entry
from benchorch.stores import signing
from benchorch.stores.artifact_directory import DirectoryStore
from benchorch.stores.disk import free_bytes
from benchorch.stores.entries import (
    QUARANTINE,
    REASON,
    is_key,
    parse_reason,
    quarantine_note,
    unreadable,
)
from benchorch.stores.manifest import (
    FILES,
    MANIFEST,
    QUARANTINED,
    CorruptEntry,
    FileRecord,
    Manifest,
    of_key,
    parse_manifest,
    read_manifest,
    to_entry,
    write_manifest,
)
from benchorch.stores.objects import ABSENT, Content, Denied, Objects, Unreachable

LOG = logging.getLogger(__name__)
MOST_MANIFEST_BYTES = 16 * 2**20
"""A manifest of a hundred thousand files is shorter."""
_MOST_COPY_BYTES = 5 * 2**30  # more than this cannot be copied at once
_AT_ONCE = 16


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteArtifacts:
    """The artifacts in object storage, and the store whose directory they are downloaded to."""

    objects: Objects
    store: DirectoryStore

    def has(self, key: str) -> bool:
        """Whether its manifest is there."""
        return is_key(key) and self._manifest(key) is not None

    def _manifest(self, key: str) -> Content | None:
        return self.objects.read(_at(key, MANIFEST), MOST_MANIFEST_BYTES)

    def download_locked(self, key: str, format: Format | None) -> Artifact | None:
        """The artifact in the directory, every byte verified, while holding the `lock` of its key.

        A corrupt one is quarantined, then None; code that no trusted key has signed is left alone.
        """
        found = self._manifest(key)
        if found is None:
            return None
        try:
            manifest = _sensible(found, key, format)
            if signing.is_refused(manifest, self.address_of(key)):
                return None
            return self.store.adopt_locked(key, partial(self._download, manifest))
        except CorruptEntry as error:
            LOG.warning("%s is not used: %s", self.address_of(key), error)
            self._quarantine(key, found.info.etag, str(error))
            return None

    def _download(self, manifest: Manifest, directory: Path) -> None:
        write_manifest(directory, manifest)
        for file in manifest.files:
            name = _at(manifest.key, FILES, file.sha256)
            self._check(name, file, directory)
            path = directory / FILES / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            if not self.objects.download(name, path):
                raise CorruptEntry(f"{file.path} is missing")

    def _check(self, name: str, file: FileRecord, directory: Path) -> None:
        """Checks before the first byte is downloaded, so that no disk is filled in vain."""
        found = self.objects.look(name)
        if found is None:
            raise CorruptEntry(f"{file.path} is missing")
        if found.size_bytes != file.size_bytes:
            raise CorruptEntry(
                f"{file.path} has {found.size_bytes} bytes instead of {file.size_bytes}"
            )
        if free_bytes(directory) < file.size_bytes:
            raise Unreachable(f"{file.path} has {file.size_bytes} bytes, more than are free here")

    def _quarantine(self, key: str, etag: str, reason: str) -> None:
        """Keep an entry for people where it is not found; not one that was published meanwhile."""
        place = f"{QUARANTINE}/{key}-{hashlib.sha256(etag.encode()).hexdigest()[:12]}"
        try:
            there = self.objects.look(_at(key, MANIFEST))
            if there is None or there.etag != etag:
                return
            for each in self.objects.listed(_at(key, "")):
                if each.size_bytes <= _MOST_COPY_BYTES:
                    self.objects.copy(each.name, f"{place}/{each.name.removeprefix(_at(key, ''))}")
            self.objects.write(f"{place}/{REASON}", json.dumps(quarantine_note(reason)).encode())
            self.objects.remove(_at(key, MANIFEST), if_match=etag)
        except (Unreachable, Denied) as error:
            LOG.warning("%s stays where it is: %s", self.address_of(key), error)

    def publish(self, artifact: Artifact, *, replace: bool) -> None:
        """Publish an artifact of the directory; nothing is visible before all of it is there.

        Args:
            artifact: in use, so that it is not evicted meanwhile.
            replace: an existing entry of the same key; otherwise that one stays.
        """
        manifest = read_manifest(artifact.path.parent)
        for sha256, path in {file.sha256: file.path for file in manifest.files}.items():
            self.objects.upload(_at(manifest.key, FILES, sha256), artifact.path / path)
        self.objects.write(f"{_of_name(manifest.name)}{manifest.key}", b"")
        data = json.dumps(encode(manifest), indent=2).encode()
        self.objects.write(_at(manifest.key, MANIFEST), data, if_match=None if replace else ABSENT)

    def newest(self, name: str) -> Entry | None:
        """The newest artifact whose manifest has that name; its files are not verified."""
        listed = sorted(self.objects.listed(_of_name(name)), key=lambda each: each.age_s)
        for _, same_age in groupby(listed, key=lambda each: each.age_s):
            found = [self._entry(each.name.removeprefix(_of_name(name))) for each in same_age]
            sound = [each for each in found if each and each.name == name and not each.detail]
            if sound:
                return max(sound, key=lambda entry: entry.created_at)
        return None

    def keys(self) -> set[str]:
        """All keys with an artifact."""
        return {key for key in self.objects.folders("artifacts/") if is_key(key)}

    def entries(self, keys: Sequence[str]) -> list[Entry]:
        """The entries of these keys, and all quarantined ones."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = pool.map(self._entry, keys)
            quarantined = pool.map(self._quarantined_entry, self.objects.folders(f"{QUARANTINE}/"))
            return [entry for entry in (*found, *quarantined) if entry]

    def _entry(self, key: str) -> Entry | None:
        """From its manifest, sensible or not; None if there is none."""
        found = self._manifest(key) if is_key(key) else None
        if found is None:
            return None
        try:
            manifest = _sensible(found, key, None)
        except CorruptEntry as error:
            manifest = unreadable(key, str(error))
        return to_entry(manifest, self.store.entry_path(key), remote=self.address_of(key))

    def _quarantined_entry(self, folder: str) -> Entry | None:
        key = folder.partition("-")[0]
        place = f"{QUARANTINE}/{folder}"
        if not is_key(key):
            return None
        note = self.objects.read(f"{place}/{REASON}", MOST_MANIFEST_BYTES)
        reason, at = parse_reason(note.data if note else b"")
        manifest = unreadable(key, reason, at)
        found = self.objects.read(f"{place}/{MANIFEST}", MOST_MANIFEST_BYTES)
        with suppress(CorruptEntry):
            written = parse_manifest(found.data if found else b"")
            manifest = replace(written, key=key, state=QUARANTINED, detail=reason)
        address = f"{self.objects.address}/{place}"
        return to_entry(manifest, self.store.directory / place, remote=address)

    def delete(self, key: str) -> bool:
        """Whether anything of that key was there to be removed. The manifest goes first."""
        manifest = self._manifest(key)
        self.objects.remove(_at(key, MANIFEST))
        if manifest:
            with suppress(CorruptEntry):
                self.objects.remove(f"{_of_name(parse_manifest(manifest.data).name)}{key}")
        rest = (_at(key, ""), f"{QUARANTINE}/{key}-")
        found = [each for prefix in rest for each in self.objects.listed(prefix)]
        for each in found:
            self.objects.remove(each.name)
        return bool(manifest or found)

    def abort_uploads(self, key: str) -> None:
        """Free what a builder left that died while publishing."""
        try:
            self.objects.abort_uploads(_at(key, ""))
        except StoreError as error:  # the bucket's lifecycle rules end them some days later
            LOG.warning("Unfinished uploads stay for now: %s", error)

    def address_of(self, key: str) -> str:
        """Address of an entry for display."""
        return f"{self.objects.address}/artifacts/{key}"


def _sensible(found: Content, key: str, format: Format | None) -> Manifest:
    """The manifest that was read; CorruptEntry unless it is of a complete artifact of this key."""
    if len(found.data) < found.info.size_bytes:
        raise CorruptEntry(f"{MANIFEST} has {found.info.size_bytes} bytes, which no manifest has")
    return of_key(parse_manifest(found.data), key, format)


def _at(key: str, *parts: str) -> str:
    return "/".join(("artifacts", key, *parts))


def _of_name(name: str) -> str:
    """The prefix under which the keys of a name are listed; the name itself may be any text."""
    return f"names/{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()}/"
