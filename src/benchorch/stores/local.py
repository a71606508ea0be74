"""Artifacts in a directory of this machine.

::

    <root>/benchorch-store      written first: without it nothing here is ours to change
    <root>/artifacts/<key>/     whole entries and nothing else
    <root>/failed/<key>/        manifests of builds that failed, for people
    <root>/quarantine/<key>-<n> entries that contradicted themselves, each with its reason.json
    <root>/scratch/<key>/       compilers' own caches
    <root>/dropped/<key>/       manifests of artifacts that made room for others, for people
    <root>/uses/                who may be using artifacts now, see `stores.room`
    <root>/staging/             what is being built or removed; swept when its maker is gone
    <root>/locks/<key>.lock     held by whoever builds, removes or sets aside that key
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import final

from benchorch.domain.artifact import Artifact, BuildKey, Format
from benchorch.errors import StoreError
from benchorch.interfaces.store import Entry, Store
from benchorch.journal import write_json
from benchorch.stores import disk, room
from benchorch.stores.locks import locked
from benchorch.stores.manifest import (
    DROPPED,
    FAILED,
    FILES,
    QUARANTINED,
    SETTLE_S,
    CorruptEntry,
    Manifest,
    read_manifest,
    seal,
    to_entry,
    verified,
    write_manifest,
)

MARKER = "benchorch-store"
_MARKER_TEXT = "benchorch keeps artifacts here: python -m benchorch cache list\n"
_ROOMS = ("artifacts", "failed", "quarantine", "dropped", "scratch", "uses", "staging", "locks")
_REASON = "reason.json"
_MADE_ROOM = "made room for others: store.quota_gib"
_GIB = 2**30
_OWNER_ONLY = 0o700
_DETAIL_CHARACTERS = 4000  # enough for a compiler's last words, too little to fill a disk


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStore(Store):
    """Keeps artifacts below one directory, readable by its owner only.

    Args:
        root: the directory; ``~`` is the user's own. Made when first needed.
        quota_gib: how much artifacts and compilers' caches may hold when nobody uses them; those
            used longest ago make room. 0 keeps none, null keeps all.
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
            Path(self.root).expanduser()
        except RuntimeError as error:
            raise ValueError(f"root {self.root!r}: {error}") from error

    @property
    def _root(self) -> Path:
        return Path(self.root).expanduser().absolute()

    def problems(self) -> Sequence[str]:
        """Why nothing can be kept below the root, one sentence each."""
        try:
            problem = self._problem()
        except OSError as error:
            problem = f"{self._root}: {error.strerror}."
        return [f"store.root: {problem}"] if problem else []

    def _problem(self) -> str:
        place = self._root
        while not os.path.lexists(place):
            place = place.parent
        if not place.is_dir():
            return f"{place} is not a directory."
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            return f"{place} is not writable."
        # Permission bits say nothing of a file system that takes no directories, such as /proc.
        os.rmdir(tempfile.mkdtemp(prefix=".benchorch-", dir=place))  # noqa: PTH106  # a path as text
        return self._foreign() if place == self._root else ""

    def _foreign(self) -> str:
        """Why the existing root is not ours, or an empty string."""
        names = os.listdir(self._root)  # noqa: PTH208  # names are all that is wanted
        if not names or MARKER in names or (self._root / MARKER).exists():
            return ""
        return (
            f"{self._root} is not empty and not a store: it has {min(names)!r} but no {MARKER!r}. "
            "Name a new directory."
        )

    def find(self, key: str) -> Artifact | None:
        """The complete, verified artifact of this key."""
        if not self._kept(key) or not self._found(key):
            return None
        with suppress(CorruptEntry):
            return to_entry(verified(self._at(key), key), self._at(key)).artifact
        # It may just be on its way in or out: what counts is how it is while nobody moves it.
        with self._locked(key):
            return self._find_alone(key)

    def _found(self, key: str) -> bool:
        return room.found(self._root / "uses", self._at(key))

    def _find_alone(self, key: str) -> Artifact | None:
        """As `find`, for the holder of the key's lock."""
        if not self._kept(key) or not self._found(key):
            return None
        try:
            return to_entry(verified(self._at(key), key), self._at(key)).artifact
        except CorruptEntry as error:
            self._quarantine(key, str(error))
            return None

    def _quarantine(self, key: str, reason: str) -> None:
        room = self._root / "quarantine"
        with disk.speaking_of(room):
            taken = {path.name for path in room.glob(f"{key}-*")}
            number = next(n for n in range(1, len(taken) + 2) if f"{key}-{n}" not in taken)
            place = room / f"{key}-{number}"
            self._at(key).rename(place)
            write_json(place / _REASON, {"reason": reason, "at": _now()})

    def build(
        self,
        key: BuildKey,
        *,
        format: Format,
        name: str,
        make: Callable[[Path], None],
        force: bool = False,
    ) -> tuple[Artifact, bool]:
        """The artifact, and whether this call built it; others that want it wait meanwhile."""
        digest = key.digest
        found = None if force else self.find(digest)
        if found:
            return found, False
        self._prepare()
        self._sweep()
        with self._locked(digest):
            found = None if force else self._find_alone(digest)
            if found:
                return found, False
            draft = Manifest(
                key=digest, name=name, format=format, fields=key.fields, created_at=_now()
            )
            return self._build_alone(draft, make), True

    def _build_alone(self, draft: Manifest, make: Callable[[Path], None]) -> Artifact:
        with ExitStack() as stack:
            with disk.speaking_of(self._root):
                staging = self._staging(draft.key)
                stack.push(partial(self._after_build, draft, staging))
                (staging / FILES).mkdir()
            began_s = time.monotonic()
            make(staging / FILES)
            build_s = time.monotonic() - began_s
            with disk.speaking_of(self._root):
                disk.sync_tree(staging)
                time.sleep(SETTLE_S)
                manifest = seal(staging, replace(draft, build_s=build_s))
                disk.sync_directory(staging)
                disk.place(staging, self._at(draft.key))
        for note in ("failed", "dropped"):
            disk.discard(self._root / note / draft.key)
        return to_entry(manifest, self._at(draft.key)).artifact

    def _after_build(
        self,
        draft: Manifest,
        staging: Path,
        _: type[BaseException] | None,
        error: BaseException | None,
        __: TracebackType | None,
    ) -> None:
        """Leave nothing half-done; of a failure, the reason."""
        full = disk.lack_of_space(error, staging) if error else None
        explained = disk.disk_full_error(disk.place_of(full, self._root)) if full else None
        disk.discard(staging)
        if isinstance(error, Exception):  # an interrupted build did not fail
            self._remember_failure(draft, error)
        if explained:
            raise explained from full

    def _remember_failure(self, draft: Manifest, error: Exception) -> None:
        detail = f"{type(error).__name__}: {error}"[:_DETAIL_CHARACTERS]
        place = self._root / "failed" / draft.key
        with suppress(OSError):  # the failure itself is what the caller must hear of
            place.mkdir(mode=_OWNER_ONLY, exist_ok=True)
            write_manifest(place, replace(draft, state=FAILED, detail=detail))

    def newest(self, name: str) -> Entry | None:
        """The newest complete and verified artifact of that name."""
        for entry in self._entries_in("artifacts"):
            if entry.name == name and entry.state != QUARANTINED and self.find(entry.artifact.key):
                return entry
        return None

    def scratch(self, key: str) -> Path:
        """A directory below the root for a compiler's cache."""
        self._prepare()
        place = self._root / "scratch" / _checked(key)
        with disk.speaking_of(place):
            place.mkdir(mode=_OWNER_ONLY, exist_ok=True)
        return place

    def entries(self) -> Sequence[Entry]:
        """Everything kept, newest first; nothing is verified here."""
        rooms = ("artifacts", "failed", "quarantine", "dropped")
        found = [entry for room in rooms for entry in self._entries_in(room)]
        return sorted(found, key=lambda entry: entry.created_at, reverse=True)

    def _entries_in(self, room: str) -> list[Entry]:
        place = self._root / room
        if not place.is_dir():
            return []
        with disk.speaking_of(place):
            found = [_entry(path) for path in place.iterdir() if _is_key(_key_of(path))]
        return sorted(found, key=lambda entry: entry.created_at, reverse=True)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Until it ends, this process and its children keep what they find; then room is made."""
        self._prepare()
        try:
            with ExitStack() as stack:
                with disk.speaking_of(self._root):
                    stack.enter_context(room.use(self._root / "uses"))
                yield
        finally:
            with suppress(StoreError):  # what was done meanwhile stands
                self.trim()

    def trim(self) -> Sequence[str]:
        """Drop what was used longest ago until the quota is kept; what may be in use stays."""
        if self.quota_gib is None or not (self._root / MARKER).exists():
            return []
        self._prepare()
        # One at a time: two that saw the same excess would drop it twice.
        with disk.speaking_of(self._root), locked(self._root / "uses" / "trim"):
            sizes = self._sizes()
            excess = sum(sizes.values()) - self.quota_gib * _GIB
            dropped = []
            for key in sorted(sizes, key=lambda key: room.last_used_ns(self._at(key))):
                if excess <= 0:
                    break
                if self._drop(key):
                    excess -= sizes[key]
                    dropped.append(key)
        return dropped

    def _sizes(self) -> dict[str, int]:
        """What each key holds, in its artifact and its compiler's cache."""
        sizes: dict[str, int] = {}
        for place in ("artifacts", "scratch"):
            for path in (self._root / place).iterdir():
                sizes[path.name] = sizes.get(path.name, 0) + room.size_bytes(path)
        return sizes

    def _drop(self, key: str) -> bool:
        """Whether it was let go: not where somebody builds it, or may be using it."""
        with self._locked(key, wait=False) as alone:
            if not alone:
                return False
            staging = self._staging(key)
            with room.unused(self._root / "uses", self._at(key)) as unused:
                for place in ("artifacts", "scratch") if unused else ():
                    with suppress(FileNotFoundError):
                        (self._root / place / key).rename(staging / place)
            self._remember_dropped(key, staging / "artifacts")
            self._clear(key)
            return unused

    def _remember_dropped(self, key: str, artifact: Path) -> None:
        with suppress(CorruptEntry, OSError):  # a compiler's cache alone leaves nothing to tell
            manifest = replace(read_manifest(artifact), state=DROPPED, detail=_MADE_ROOM, files=())
            place = self._root / "dropped" / key
            place.mkdir(mode=_OWNER_ONLY, exist_ok=True)
            write_manifest(place, manifest)

    def delete(self, key: str) -> None:
        """Remove the artifact, all that is remembered of it, and its scratch."""
        rooms = ("artifacts", "failed", "quarantine", "dropped", "scratch")
        with self._locked(_checked(key), wait=False) as alone:
            if not alone:
                raise StoreError(f"{key} is being built now; delete it when that is done.")
            found = [path for room in rooms for path in (self._root / room).glob(f"{key}*")]
            if not any(path.parent.name != "scratch" for path in found):
                raise StoreError(f"there is no {key} in {self._root}.")
            with disk.speaking_of(self._root):
                for path in found:  # gone at once, whatever becomes of this process
                    path.rename(self._staging(key) / path.name)
            self._clear(key)

    def _kept(self, key: str) -> bool:
        return _is_key(key) and self._at(key).is_dir() and (self._root / MARKER).exists()

    def _at(self, key: str) -> Path:
        return self._root / "artifacts" / key

    def _prepare(self) -> None:
        """The root with its marker and rooms; StoreError if it is somebody else's."""
        with disk.speaking_of(self._root):
            self._root.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
            foreign = self._foreign()
            if foreign:
                raise StoreError(foreign)
            if not (self._root / MARKER).exists():
                (self._root / MARKER).write_text(_MARKER_TEXT)
            for room in _ROOMS:
                (self._root / room).mkdir(mode=_OWNER_ONLY, exist_ok=True)

    def _staging(self, key: str) -> Path:
        """A new directory of that key, for the holder of its lock only."""
        return Path(tempfile.mkdtemp(prefix=f"{key}-", dir=self._root / "staging"))

    def _sweep(self) -> None:
        """Remove what builders left that were killed."""
        for key in {_key_of(path) for path in self._root.glob("staging/*-*")}:
            with self._locked(key, wait=False) as alone:
                if alone:
                    self._clear(key)

    def _clear(self, key: str) -> None:
        for path in self._root.glob(f"staging/{key}-*"):
            disk.discard(path)

    @contextmanager
    def _locked(self, key: str, *, wait: bool = True) -> Iterator[bool]:
        if not (self._root / MARKER).exists():
            raise StoreError(f"{self._root} is not a store: it has no {MARKER!r}.")
        with ExitStack() as stack:
            with disk.speaking_of(self._root):
                path = self._root / "locks" / f"{key}.lock"
                alone = stack.enter_context(locked(path, wait=wait))
            yield alone


def _entry(directory: Path) -> Entry:
    """What is known of an entry, be it readable or not."""
    key = _key_of(directory)
    try:
        manifest = read_manifest(directory)
    except CorruptEntry as error:
        # No artifact is ever a live module, so that format stands for an unknown one.
        manifest = Manifest(
            key=key,
            name="(unreadable)",
            format=Format.MODULE,
            fields={},
            created_at="",
            state=QUARANTINED,
            detail=str(error),
        )
    if directory.parent.name == "quarantine":
        reason, at = _reason(directory)
        created_at = manifest.created_at or at
        manifest = replace(
            manifest, key=key, state=QUARANTINED, detail=reason, created_at=created_at
        )
    return to_entry(manifest, directory)


def _reason(directory: Path) -> tuple[str, str]:
    """Why an entry was set aside, and when."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        note = json.loads((directory / _REASON).read_bytes())
        return str(note["reason"]), str(note["at"])
    return "the reason was not written down", ""


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _key_of(directory: Path) -> str:
    return directory.name.partition("-")[0]


def _is_key(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{64}", text) is not None


def _checked(key: str) -> str:
    """The key itself; nothing else may become part of a path."""
    if not _is_key(key):
        raise StoreError(f"{key!r} is not a key: 64 hexadecimal digits were expected.")
    return key
