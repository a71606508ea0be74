"""Artifacts as objects that machines share: put there whole, and taken for nothing but their bytes.

::

    artifacts/<key>/manifest.json   written last: without it nothing is there
    artifacts/<key>/files/<sha256>  each file under the digest of its bytes
    names/<digest>/<key>            which keys a name has; the digest is of the name
    leases/<key>                    who builds that key, see `stores.lease`
    quarantine/<key>-<n>/           entries that contradicted themselves, each with its reason.json

A file's path stands in the manifest alone and never becomes part of an object's name. Another build
of the same key never changes a file that somebody is reading.
"""

from __future__ import annotations

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

from benchorch.domain.artifact import Artifact
from benchorch.domain.codec import encode
from benchorch.errors import StoreError
from benchorch.interfaces.store import Entry
from benchorch.stores.disk import free_bytes
from benchorch.stores.listing import (
    QUARANTINE,
    REASON,
    is_key,
    note_of,
    reason_in,
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
from benchorch.stores.shelf import ArtifactDirectory

LOG = logging.getLogger(__name__)
MOST_MANIFEST_BYTES = 16 * 2**20
"""A manifest of a hundred thousand files is shorter."""
_MOST_COPY_BYTES = 5 * 2**30  # more than this cannot be copied at once
_AT_ONCE = 16


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """The artifacts that one service keeps, with the shelf on which they are put when wanted."""

    objects: Objects
    shelf: ArtifactDirectory

    def has(self, key: str) -> bool:
        """Whether somebody has put a manifest there."""
        return is_key(key) and self._manifest(key) is not None

    def _manifest(self, key: str) -> Content | None:
        return self.objects.read(_at(key, MANIFEST), MOST_MANIFEST_BYTES)

    def fetch_alone(self, key: str) -> Artifact | None:
        """The artifact on the shelf, every byte verified; a corrupt one is quarantined, then None.

        For whoever is alone with the key.
        """
        found = self._manifest(key)
        if found is None:
            return None
        try:
            manifest = _sensible(found, key)
            return self.shelf.adopt_alone(key, partial(self._download, manifest))
        except CorruptEntry as error:
            LOG.warning("%s is not used: %s", self.address_of(key), error)
            self._set_aside(key, found.seen.mark, str(error))
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
        """What can be known before the first byte is fetched: nobody's disk is filled in vain."""
        seen = self.objects.look(name)
        if seen is None:
            raise CorruptEntry(f"{file.path} is missing")
        if seen.size_bytes != file.size_bytes:
            raise CorruptEntry(
                f"{file.path} has {seen.size_bytes} bytes instead of {file.size_bytes}"
            )
        if free_bytes(directory) < file.size_bytes:
            raise Unreachable(f"{file.path} has {file.size_bytes} bytes, more than are free here")

    def _set_aside(self, key: str, mark: str, reason: str) -> None:
        """Keep an entry for people, and let nobody find it; not one that has come meanwhile."""
        place = f"{QUARANTINE}/{key}-{hashlib.sha256(mark.encode()).hexdigest()[:12]}"
        try:
            there = self.objects.look(_at(key, MANIFEST))
            if there is None or there.mark != mark:
                return
            for seen in self.objects.listed(_at(key, "")):
                if seen.size_bytes <= _MOST_COPY_BYTES:
                    self.objects.copy(seen.name, f"{place}/{seen.name.removeprefix(_at(key, ''))}")
            self.objects.write(f"{place}/{REASON}", json.dumps(note_of(reason)).encode())
            self.objects.remove(_at(key, MANIFEST), if_is=mark)
        except (Unreachable, Denied) as error:
            LOG.warning("%s stays where it is: %s", self.address_of(key), error)

    def publish(self, artifact: Artifact, *, replace: bool) -> None:
        """Let other machines have an artifact of the shelf; nothing is seen before all is there.

        Args:
            artifact: nobody drops it meanwhile.
            replace: an entry of the same key that is there already; it stays otherwise.
        """
        manifest = read_manifest(artifact.path.parent)
        for sha256, path in {file.sha256: file.path for file in manifest.files}.items():
            self.objects.upload(_at(manifest.key, FILES, sha256), artifact.path / path)
        self.objects.write(f"{_of_name(manifest.name)}{manifest.key}", b"")
        data = json.dumps(encode(manifest), indent=2).encode()
        self.objects.write(_at(manifest.key, MANIFEST), data, if_is=None if replace else ABSENT)

    def newest(self, name: str) -> Entry | None:
        """The newest artifact of that name that says so itself; its files are not looked at."""
        seen = sorted(self.objects.listed(_of_name(name)), key=lambda seen: seen.age_s)
        for _, same_age in groupby(seen, key=lambda seen: seen.age_s):
            found = [self._entry(each.name.removeprefix(_of_name(name))) for each in same_age]
            sound = [each for each in found if each and each.name == name and not each.detail]
            if sound:
                return max(sound, key=lambda entry: entry.created_at)
        return None

    def keys(self) -> set[str]:
        """Of which keys something is there."""
        return {key for key in self.objects.folders("artifacts/") if is_key(key)}

    def entries(self, keys: Sequence[str]) -> list[Entry]:
        """What is known of these keys, and all that was set aside."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = pool.map(self._entry, keys)
            aside = pool.map(self._entry_aside, self.objects.folders(f"{QUARANTINE}/"))
            return [entry for entry in (*found, *aside) if entry]

    def _entry(self, key: str) -> Entry | None:
        """As the manifest has it, sensible or not; None where there is none."""
        found = self._manifest(key) if is_key(key) else None
        if found is None:
            return None
        try:
            manifest = _sensible(found, key)
        except CorruptEntry as error:
            manifest = unreadable(key, str(error))
        return to_entry(manifest, self.shelf.place_of(key), remote=self.address_of(key))

    def _entry_aside(self, folder: str) -> Entry | None:
        key = folder.partition("-")[0]
        place = f"{QUARANTINE}/{folder}"
        if not is_key(key):
            return None
        note = self.objects.read(f"{place}/{REASON}", MOST_MANIFEST_BYTES)
        reason, at = reason_in(note.data if note else b"")
        manifest = unreadable(key, reason, at)
        found = self.objects.read(f"{place}/{MANIFEST}", MOST_MANIFEST_BYTES)
        with suppress(CorruptEntry):
            said = parse_manifest(found.data if found else b"")
            manifest = replace(said, key=key, state=QUARANTINED, detail=reason)
        address = f"{self.objects.address}/{place}"
        return to_entry(manifest, self.shelf.root / place, remote=address)

    def delete(self, key: str) -> bool:
        """Whether there was anything of that key; now there is not. The manifest goes first."""
        manifest = self._manifest(key)
        self.objects.remove(_at(key, MANIFEST))
        if manifest:
            with suppress(CorruptEntry):
                self.objects.remove(f"{_of_name(parse_manifest(manifest.data).name)}{key}")
        rest = (_at(key, ""), f"{QUARANTINE}/{key}-")
        found = [seen for prefix in rest for seen in self.objects.listed(prefix)]
        for seen in found:
            self.objects.remove(seen.name)
        return bool(manifest or found)

    def clear_up(self, key: str) -> None:
        """Free what a builder left that died while it put an artifact there."""
        try:
            self.objects.forget_unfinished(_at(key, ""))
        except StoreError as error:  # the bucket's own rules end them some days later
            LOG.warning("Unfinished uploads stay for now: %s", error)

    def address_of(self, key: str) -> str:
        """Where an entry of that key is, for people."""
        return f"{self.objects.address}/artifacts/{key}"


def _sensible(found: Content, key: str) -> Manifest:
    """The manifest that was read, if it is that of a whole artifact of this key."""
    if len(found.data) < found.seen.size_bytes:
        raise CorruptEntry(f"{MANIFEST} has {found.seen.size_bytes} bytes, which no manifest has")
    return of_key(parse_manifest(found.data), key)


def _at(key: str, *parts: str) -> str:
    return "/".join(("artifacts", key, *parts))


def _of_name(name: str) -> str:
    """Where the keys of a name are listed: the name itself could be anything."""
    return f"names/{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()}/"
