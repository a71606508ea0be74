"""Artifacts in a directory of this machine: what every store with a directory does with it.

::

    <root>/benchorch-store      written first: without it nothing here belongs to the store
    <root>/artifacts/<key>/     whole entries and nothing else
    <root>/failed/<key>/        manifests of builds that failed, for people
    <root>/quarantine/<key>-<n> corrupt entries, each with its reason.json
    <root>/scratch/<key>/       compilers' own caches
    <root>/dropped/<key>/       manifests of evicted artifacts, for people
    <root>/uses/                who may be using artifacts now, see `stores.eviction`
    <root>/staging/             what is being built or removed; swept when its maker is gone
    <root>/locks/<key>.lock     held by the process that builds, removes or quarantines that key
"""

from __future__ import annotations

import math
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from benchorch.domain.artifact import Artifact, BuildKey, Format
from benchorch.errors import StoreError
from benchorch.files import write_json
from benchorch.interfaces.store import Entry, Store
from benchorch.locks import locked
from benchorch.stores import disk, eviction, signing
from benchorch.stores.entries import (
    QUARANTINE,
    REASON,
    check_key,
    entry_at,
    is_key,
    key_of,
    quarantine_note,
)
from benchorch.stores.manifest import (
    DROPPED,
    FAILED,
    FILES,
    QUARANTINED,
    SETTLE_S,
    CorruptEntry,
    Manifest,
    now,
    read_manifest,
    seal,
    to_entry,
    verified,
    write_manifest,
)

MARKER = "benchorch-store"
_MARKER_TEXT = "benchorch keeps artifacts here: python -m benchorch cache list\n"
_SHOWN = ("artifacts", "failed", QUARANTINE, "dropped")
_FOLDERS = (*_SHOWN, "scratch", "stamps", "uses", "staging", "locks")
_EVICTED = "evicted to stay within store.quota_gib"
_GIB = 2**30
_OWNER_ONLY = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_DETAIL_CHARACTERS = 4000  # enough for a compiler's last lines, too little to fill a disk


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryStore(Store):
    """A store whose artifacts are used from a directory of this machine.

    Args:
        root: the directory; ``~`` is the user's own. Made when first needed.
        quota_gib: size limit while unused; None for no limit.
    """

    root: str
    quota_gib: float | None = None

    def __post_init__(self) -> None:
        if self.quota_gib is not None and not 0 <= self.quota_gib < math.inf:
            raise ValueError(
                f"quota_gib must be null or a number of at least 0, got {self.quota_gib}."
            )
        if not self.root:
            raise ValueError(f"root must name a directory, got {self.root!r}")
        try:
            root = Path(self.root).expanduser().absolute()
        except RuntimeError as error:
            raise ValueError(f"root {self.root!r}: {error}") from error
        object.__setattr__(self, "root", str(root))  # the same wherever this process goes

    @property
    def directory(self) -> Path:
        """The directory; made when first needed."""
        return Path(self.root)

    def problems(self) -> Sequence[str]:
        """Why nothing can be kept below the root, one sentence each."""
        try:
            problem = self._problem()
        except OSError as error:
            problem = f"{self.directory}: {error.strerror}."
        keyless = signing.problem()
        return [f"store.root: {problem}"] * bool(problem) + [keyless] * bool(keyless)

    def _problem(self) -> str:
        place = self.directory
        while not os.path.lexists(place):
            place = place.parent
        if not place.is_dir():
            return f"{place} is not a directory."
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            return f"{place} is not writable."
        # Permission bits do not show that a file system takes no directories, such as /proc.
        os.rmdir(tempfile.mkdtemp(prefix=".benchorch-", dir=place))  # noqa: PTH106  # a path as text
        return self._foreign() if place == self.directory else ""

    def _foreign(self) -> str:
        """Why the existing root is not a store of this user's, or an empty string."""
        names = os.listdir(self.directory)  # noqa: PTH208  # only names are needed
        if link := self._link():
            return f"{link} is a link, and a store fills and empties no other place: remove it."
        if names and MARKER not in names and not (self.directory / MARKER).exists():
            return (
                f"{self.directory} is not empty and not a store: it has {min(names)!r} but no "
                f"{MARKER!r}. Name a new directory."
            )
        if shared := self._shared():
            own = shared.stat().st_uid == os.geteuid()
            remedy = f"chmod go-w {shared}, or name" if own else "name"
            return (
                f"{shared} can be written by others, who could exchange compiled code after it was "
                f"verified: {remedy} a new directory."
            )
        return ""

    def _link(self) -> Path | None:
        """What of the store leads elsewhere, as in a folder that somebody else packed."""
        own = (self.directory / name for name in (MARKER, *_FOLDERS))
        return next((path for path in own if path.is_symlink()), None)

    def _shared(self) -> Path | None:
        """What of the store others own or may write."""
        with tempfile.TemporaryFile(dir=self.directory) as own:
            # A server may give what is written here, by root for one, to another user.
            owners = {0, os.geteuid(), os.fstat(own.fileno()).st_uid}
        for path in (self.directory, *(self.directory / name for name in _FOLDERS)):
            with suppress(FileNotFoundError):
                found = path.stat()
                if found.st_uid not in owners or found.st_mode & _OTHERS_WRITE:
                    return path
        return None

    def entry_path(self, key: str) -> Path:
        """Path of the entry of a key, present or not."""
        return self.directory / "artifacts" / key

    def find(self, key: str, format: Format | None = None) -> Artifact | None:
        """The complete, verified artifact of this key."""
        if not self._mark_used(key):
            return None
        with suppress(CorruptEntry):
            return self._trusted(key, format)
        # It may just be moved in or out: only its state while nobody moves it counts.
        with self._locked(key):
            return self.find_locked(key, format)

    def find_locked(self, key: str, format: Format | None = None) -> Artifact | None:
        """Find under the held `lock` of the key; a corrupt entry is quarantined."""
        if not self._mark_used(key):
            return None
        try:
            return self._trusted(key, format)
        except CorruptEntry as error:
            self._quarantine(key, str(error))
            return None

    def _mark_used(self, key: str) -> bool:
        """Whether there is an entry of that key, which counts as used from now on."""
        path, marker = self.entry_path(key), self.directory / MARKER
        exists = is_key(key) and path.is_dir() and marker.exists() and not self._link()
        return exists and eviction.mark_used(self.directory / "uses", path)

    def _trusted(self, key: str, format: Format | None) -> Artifact | None:
        """The verified artifact; None for code that no trusted key has signed."""
        path = self.entry_path(key)
        manifest = verified(path, key, format, signing.proof)
        if signing.is_refused(manifest, str(path)):
            return None
        return to_entry(manifest, path).artifact

    def _quarantine(self, key: str, reason: str) -> None:
        folder = self.directory / QUARANTINE
        with disk.store_errors(folder):
            taken = {path.name for path in folder.glob(f"{key}-*")}
            number = next(n for n in range(1, len(taken) + 2) if f"{key}-{n}" not in taken)
            place = folder / f"{key}-{number}"
            self.entry_path(key).rename(place)
            write_json(place / REASON, quarantine_note(reason))

    @contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """While this is open, no other process builds, removes or quarantines that key."""
        self._prepare()
        self._sweep()
        with self._locked(key):
            yield

    def build_locked(
        self, key: BuildKey, *, format: Format, name: str, make: Callable[[Path], None]
    ) -> Artifact:
        """A new artifact, replacing any existing one, while holding the `lock` of its key."""
        draft = Manifest(
            key=key.digest, name=name, format=format, fields=key.fields, created_at=now()
        )
        with disk.store_errors(self.directory):
            staging = self._staging(draft.key)
        try:
            with disk.store_errors(self.directory):
                (staging / FILES).mkdir()
            began_s = time.monotonic()
            make(staging / FILES)
            build_s = time.monotonic() - began_s
            with disk.store_errors(self.directory):
                disk.sync_tree(staging)
                time.sleep(SETTLE_S)
                manifest = seal(
                    staging, replace(draft, build_s=build_s), signing.sign, signing.proof
                )
            return self._put_in_place(staging, manifest)
        except BaseException as error:
            full = disk.disk_full_cause(error, staging)
            explained = disk.disk_full_error(self._full_disk(full)) if full else None
            disk.discard(staging)
            if isinstance(error, Exception):  # an interrupted build did not fail
                self._remember_failure(draft, error)
            if explained:
                raise explained from full
            raise
        finally:
            disk.discard(staging)

    def adopt_locked(self, key: str, fill: Callable[[Path], None]) -> Artifact:
        """An entry that was built elsewhere, while holding the `lock` of its key.

        Args:
            key: what the entry must be of.
            fill: writes the manifest and the files into an empty directory.

        Raises:
            CorruptEntry: the files do not match their manifest, or are of another key.
        """
        with ExitStack() as stack:
            with disk.store_errors(self.directory):
                staging = self._staging(key)
                stack.callback(disk.discard, staging)
                (staging / FILES).mkdir()
                fill(staging)
                disk.sync_tree(staging)
                time.sleep(SETTLE_S)
                manifest = verified(staging, key, None, signing.proof)
            return self._put_in_place(staging, manifest)

    def _put_in_place(self, staging: Path, manifest: Manifest) -> Artifact:
        with disk.store_errors(self.directory):
            disk.sync(staging)
            disk.put_in_place(staging, self.entry_path(manifest.key))
        self._mark_used(manifest.key)
        for note in ("failed", "dropped"):
            disk.discard(self.directory / note / manifest.key)
        return to_entry(manifest, self.entry_path(manifest.key)).artifact

    def _full_disk(self, full: OSError) -> Path:
        """The path that an error names, or the root if it names none or one below."""
        named = full.filename
        if not isinstance(named, str) or Path(named).is_relative_to(self.directory):
            return self.directory
        return Path(named)

    def _remember_failure(self, draft: Manifest, error: Exception) -> None:
        detail = f"{type(error).__name__}: {error}"[:_DETAIL_CHARACTERS]
        with suppress(OSError):  # the caller must hear of the failure itself
            self._write_note("failed", replace(draft, state=FAILED, detail=detail))

    def _write_note(self, folder: str, manifest: Manifest) -> None:
        place = self.directory / folder / manifest.key
        place.mkdir(mode=_OWNER_ONLY, exist_ok=True)
        write_manifest(place, manifest)

    def newest(self, name: str) -> Entry | None:
        """The newest complete and verified artifact of that name."""
        for entry in self._entries_in("artifacts"):
            if entry.name != name or entry.state == QUARANTINED:
                continue
            if DirectoryStore.find(self, entry.artifact.key):  # here, whatever a store adds to it
                return entry
        return None

    def scratch(self, key: str) -> Path:
        """A directory below the root for a compiler's cache.

        Compilers load code from it, and whoever made the root cannot have guessed its name.
        """
        self._prepare()
        of_key = self.directory / "scratch" / check_key(key)
        place = of_key / signing.private_name("scratch")
        if of_key.is_symlink():
            raise StoreError(f"{of_key} is a link, and a compiler would write where it leads.")
        with disk.store_errors(place):
            for folder in (of_key, place):
                folder.mkdir(mode=_OWNER_ONLY, exist_ok=True)
        return place

    def stamps(self) -> Path:
        """A directory below the root for notes on what loading models found."""
        self._prepare()
        return self.directory / "stamps"

    def entries(self) -> Sequence[Entry]:
        """Everything kept, newest first; nothing is verified here."""
        found = [entry for folder in _SHOWN for entry in self._entries_in(folder)]
        return sorted(found, key=lambda entry: entry.created_at, reverse=True)

    def _entries_in(self, folder: str) -> list[Entry]:
        place = self.directory / folder
        if not place.is_dir():
            return []
        with disk.store_errors(place):
            found = [entry_at(path) for path in place.iterdir() if is_key(key_of(path))]
        return sorted(found, key=lambda entry: entry.created_at, reverse=True)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Until it ends, this process and its children keep what they find; then `trim`."""
        self._prepare()
        try:
            with ExitStack() as stack:
                with disk.store_errors(self.directory):
                    stack.enter_context(eviction.register_use(self.directory / "uses"))
                yield
        finally:
            with suppress(StoreError):  # what was done meanwhile stands
                self.trim()

    def trim(self) -> Sequence[str]:
        """Evict least recently used artifacts until the quota is kept; what may be in use stays."""
        if self.quota_gib is None or not (self.directory / MARKER).exists():
            return []
        self._prepare()
        # One process at a time: two that saw the same excess would evict it twice.
        with disk.store_errors(self.directory), locked(self.directory / "uses" / "trim"):
            sizes = self._sizes()
            excess = sum(sizes.values()) - self.quota_gib * _GIB
            evicted = []
            for key in sorted(sizes, key=lambda key: eviction.last_used_ns(self.entry_path(key))):
                if excess <= 0:
                    break
                if self._evict(key):
                    excess -= sizes[key]
                    evicted.append(key)
        return evicted

    def _sizes(self) -> dict[str, int]:
        """Size of each key's artifact and compiler's cache."""
        sizes: dict[str, int] = {}
        for folder in ("artifacts", "scratch"):
            for path in (self.directory / folder).iterdir():
                sizes[path.name] = sizes.get(path.name, 0) + eviction.size_bytes(path)
        return sizes

    def _evict(self, key: str) -> bool:
        """Whether it was evicted: not while a process builds it or may be using it."""
        with self._locked(key, wait=False) as acquired:
            if not acquired:
                return False
            staging = self._staging(key)
            with eviction.evictable(self.directory / "uses", self.entry_path(key)) as evictable:
                for folder in ("artifacts", "scratch") if evictable else ():
                    with suppress(FileNotFoundError):
                        (self.directory / folder / key).rename(staging / folder)
            with suppress(StoreError, OSError):  # a compiler's cache alone has no manifest
                manifest = read_manifest(staging / "artifacts")
                self._write_note(
                    "dropped", replace(manifest, state=DROPPED, detail=_EVICTED, files=())
                )
            self._clear(key)
            return evictable

    def delete(self, key: str) -> None:
        """Remove the artifact, every record of it, and its scratch."""
        with self._locked(check_key(key), wait=False) as acquired:
            if not acquired:
                raise StoreError(f"{key} is being built now; delete it when that is done.")
            folders = (*_SHOWN, "scratch")
            found = [path for name in folders for path in (self.directory / name).glob(f"{key}*")]
            if not any(path.parent.name != "scratch" for path in found):
                raise StoreError(f"there is no {key} in {self.directory}.")
            with disk.store_errors(self.directory):
                for path in found:  # gone at once, whatever becomes of this process
                    path.rename(self._staging(key) / path.name)
            self._clear(key)

    def _prepare(self) -> None:
        """Make the root with its marker and folders; StoreError if it is not a store's."""
        with disk.store_errors(self.directory):
            self.directory.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
            foreign = self._foreign()
            if foreign:
                raise StoreError(foreign)
            if not (self.directory / MARKER).exists():
                (self.directory / MARKER).write_text(_MARKER_TEXT, encoding="utf-8")
            for folder in _FOLDERS:
                (self.directory / folder).mkdir(mode=_OWNER_ONLY, exist_ok=True)

    def _staging(self, key: str) -> Path:
        """A new directory of that key, for the holder of its lock only."""
        return Path(tempfile.mkdtemp(prefix=f"{key}-", dir=self.directory / "staging"))

    def _sweep(self) -> None:
        """Remove what killed builders left."""
        for key in {key_of(path) for path in self.directory.glob("staging/*-*")}:
            with self._locked(key, wait=False) as acquired:
                if acquired:
                    self._clear(key)

    def _clear(self, key: str) -> None:
        for path in self.directory.glob(f"staging/{key}-*"):
            disk.discard(path)

    @contextmanager
    def _locked(self, key: str, *, wait: bool = True) -> Iterator[bool]:
        if not (self.directory / MARKER).exists():
            raise StoreError(f"{self.directory} is not a store: it has no {MARKER!r}.")
        if link := self._link():
            raise StoreError(f"{link} is a link: remove it.")
        with ExitStack() as stack:
            with disk.store_errors(self.directory):
                path = self.directory / "locks" / f"{key}.lock"
                acquired = stack.enter_context(locked(path, wait=wait))
            yield acquired
