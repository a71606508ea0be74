"""Where on this machine's disk artifacts lie: what every store with a directory does with it.

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

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import final

from benchorch.domain.artifact import Artifact, BuildKey, Format
from benchorch.errors import StoreError
from benchorch.interfaces.store import Entry
from benchorch.stores import disk, room
from benchorch.stores.listing import entry_at, is_key, key_of, write_reason
from benchorch.stores.locks import locked
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
_ROOMS = ("artifacts", "failed", "quarantine", "dropped", "scratch", "uses", "staging", "locks")
_MADE_ROOM = "made room for others: store.quota_gib"
_GIB = 2**30
_OWNER_ONLY = 0o700
_DETAIL_CHARACTERS = 4000  # enough for a compiler's last words, too little to fill a disk


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactDirectory:
    """Artifacts below one directory, readable by its owner only.

    Args:
        root: the directory, absolute; made when first needed.
        quota_gib: how much may be held when nobody uses it; None for any amount.
    """

    root: Path
    quota_gib: float | None

    @classmethod
    def at(cls, root: str, quota_gib: float | None) -> ArtifactDirectory:
        """The shelf below a directory as a person names it; ValueError if it names none."""
        if quota_gib is not None and not 0 <= quota_gib < math.inf:
            raise ValueError(f"quota_gib must be null or a number of at least 0, got {quota_gib}.")
        if not root:
            raise ValueError(f"root must name a directory, got {root!r}")
        try:
            place = Path(root).expanduser().absolute()
        except RuntimeError as error:
            raise ValueError(f"root {root!r}: {error}") from error
        return cls(root=place, quota_gib=quota_gib)

    def problems(self) -> Sequence[str]:
        """Why nothing can be kept below the root, one sentence each."""
        try:
            problem = self._problem()
        except OSError as error:
            problem = f"{self.root}: {error.strerror}."
        return [f"store.root: {problem}"] if problem else []

    def _problem(self) -> str:
        place = self.root
        while not os.path.lexists(place):
            place = place.parent
        if not place.is_dir():
            return f"{place} is not a directory."
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            return f"{place} is not writable."
        # Permission bits say nothing of a file system that takes no directories, such as /proc.
        os.rmdir(tempfile.mkdtemp(prefix=".benchorch-", dir=place))  # noqa: PTH106  # a path as text
        return self._foreign() if place == self.root else ""

    def _foreign(self) -> str:
        """Why the existing root is not ours, or an empty string."""
        names = os.listdir(self.root)  # noqa: PTH208  # names are all that is wanted
        if not names or MARKER in names or (self.root / MARKER).exists():
            return ""
        return (
            f"{self.root} is not empty and not a store: it has {min(names)!r} but no {MARKER!r}. "
            "Name a new directory."
        )

    def find(self, key: str) -> Artifact | None:
        """The complete, verified artifact of this key."""
        if not self._kept(key) or not self._found(key):
            return None
        with suppress(CorruptEntry):
            return to_entry(verified(self.place_of(key), key), self.place_of(key)).artifact
        # It may just be on its way in or out: what counts is how it is while nobody moves it.
        with self._locked(key):
            return self.find_alone(key)

    def _found(self, key: str) -> bool:
        return room.found(self.root / "uses", self.place_of(key))

    def find_alone(self, key: str) -> Artifact | None:
        """As `find`, for whoever is `alone` with the key."""
        if not self._kept(key) or not self._found(key):
            return None
        try:
            return to_entry(verified(self.place_of(key), key), self.place_of(key)).artifact
        except CorruptEntry as error:
            self._quarantine(key, str(error))
            return None

    def _quarantine(self, key: str, reason: str) -> None:
        room = self.root / "quarantine"
        with disk.speaking_of(room):
            taken = {path.name for path in room.glob(f"{key}-*")}
            number = next(n for n in range(1, len(taken) + 2) if f"{key}-{n}" not in taken)
            place = room / f"{key}-{number}"
            self.place_of(key).rename(place)
            write_reason(place, reason)

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """While this is open nobody else builds, removes or sets aside that key."""
        self._prepare()
        self._sweep()
        with self._locked(key):
            yield

    def build_alone(
        self, key: BuildKey, *, format: Format, name: str, make: Callable[[Path], None]
    ) -> Artifact:
        """A new artifact in the place of any that is there, for whoever is `alone` with its key."""
        draft = Manifest(
            key=key.digest, name=name, format=format, fields=key.fields, created_at=now()
        )
        with ExitStack() as stack:
            with disk.speaking_of(self.root):
                staging = self._staging(draft.key)
                stack.push(partial(self._after_build, draft, staging))
                (staging / FILES).mkdir()
            began_s = time.monotonic()
            make(staging / FILES)
            build_s = time.monotonic() - began_s
            with disk.speaking_of(self.root):
                disk.sync_tree(staging)
                time.sleep(SETTLE_S)
                manifest = seal(staging, replace(draft, build_s=build_s))
            return self._put_in_place(staging, manifest)

    def adopt_alone(self, key: str, fill: Callable[[Path], None]) -> Artifact:
        """An entry that was made elsewhere, for whoever is `alone` with its key.

        Args:
            key: what the entry must be of.
            fill: writes the manifest and the files into an empty directory.

        Raises:
            CorruptEntry: what came does not bear out its own manifest, or is of another key.
        """
        with ExitStack() as stack:
            with disk.speaking_of(self.root):
                staging = self._staging(key)
                stack.callback(disk.discard, staging)
                (staging / FILES).mkdir()
                fill(staging)
                disk.sync_tree(staging)
                time.sleep(SETTLE_S)
                manifest = verified(staging, key)
            return self._put_in_place(staging, manifest)

    def _put_in_place(self, staging: Path, manifest: Manifest) -> Artifact:
        with disk.speaking_of(self.root):
            disk.sync_directory(staging)
            disk.place(staging, self.place_of(manifest.key))
        for note in ("failed", "dropped"):
            disk.discard(self.root / note / manifest.key)
        return to_entry(manifest, self.place_of(manifest.key)).artifact

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
        explained = disk.disk_full_error(disk.place_of(full, self.root)) if full else None
        disk.discard(staging)
        if isinstance(error, Exception):  # an interrupted build did not fail
            self._remember_failure(draft, error)
        if explained:
            raise explained from full

    def _remember_failure(self, draft: Manifest, error: Exception) -> None:
        detail = f"{type(error).__name__}: {error}"[:_DETAIL_CHARACTERS]
        place = self.root / "failed" / draft.key
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
        place = self.root / "scratch" / checked(key)
        with disk.speaking_of(place):
            place.mkdir(mode=_OWNER_ONLY, exist_ok=True)
        return place

    def entries(self) -> Sequence[Entry]:
        """Everything kept, newest first; nothing is verified here."""
        rooms = ("artifacts", "failed", "quarantine", "dropped")
        found = [entry for room in rooms for entry in self._entries_in(room)]
        return sorted(found, key=lambda entry: entry.created_at, reverse=True)

    def _entries_in(self, room: str) -> list[Entry]:
        place = self.root / room
        if not place.is_dir():
            return []
        with disk.speaking_of(place):
            found = [entry_at(path) for path in place.iterdir() if is_key(key_of(path))]
        return sorted(found, key=lambda entry: entry.created_at, reverse=True)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Until it ends, this process and its children keep what they find; then room is made."""
        self._prepare()
        try:
            with ExitStack() as stack:
                with disk.speaking_of(self.root):
                    stack.enter_context(room.use(self.root / "uses"))
                yield
        finally:
            with suppress(StoreError):  # what was done meanwhile stands
                self.trim()

    def trim(self) -> Sequence[str]:
        """Drop what was used longest ago until the quota is kept; what may be in use stays."""
        if self.quota_gib is None or not (self.root / MARKER).exists():
            return []
        self._prepare()
        # One at a time: two that saw the same excess would drop it twice.
        with disk.speaking_of(self.root), locked(self.root / "uses" / "trim"):
            sizes = self._sizes()
            excess = sum(sizes.values()) - self.quota_gib * _GIB
            dropped = []
            for key in sorted(sizes, key=lambda key: room.last_used_ns(self.place_of(key))):
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
            for path in (self.root / place).iterdir():
                sizes[path.name] = sizes.get(path.name, 0) + room.size_bytes(path)
        return sizes

    def _drop(self, key: str) -> bool:
        """Whether it was let go: not where somebody builds it, or may be using it."""
        with self._locked(key, wait=False) as alone:
            if not alone:
                return False
            staging = self._staging(key)
            with room.unused(self.root / "uses", self.place_of(key)) as unused:
                for place in ("artifacts", "scratch") if unused else ():
                    with suppress(FileNotFoundError):
                        (self.root / place / key).rename(staging / place)
            self._remember_dropped(key, staging / "artifacts")
            self._clear(key)
            return unused

    def _remember_dropped(self, key: str, artifact: Path) -> None:
        with suppress(CorruptEntry, OSError):  # a compiler's cache alone leaves nothing to tell
            manifest = replace(read_manifest(artifact), state=DROPPED, detail=_MADE_ROOM, files=())
            place = self.root / "dropped" / key
            place.mkdir(mode=_OWNER_ONLY, exist_ok=True)
            write_manifest(place, manifest)

    def delete(self, key: str) -> None:
        """Remove the artifact, all that is remembered of it, and its scratch."""
        rooms = ("artifacts", "failed", "quarantine", "dropped", "scratch")
        with self._locked(checked(key), wait=False) as alone:
            if not alone:
                raise StoreError(f"{key} is being built now; delete it when that is done.")
            found = [path for room in rooms for path in (self.root / room).glob(f"{key}*")]
            if not any(path.parent.name != "scratch" for path in found):
                raise StoreError(f"there is no {key} in {self.root}.")
            with disk.speaking_of(self.root):
                for path in found:  # gone at once, whatever becomes of this process
                    path.rename(self._staging(key) / path.name)
            self._clear(key)

    def _kept(self, key: str) -> bool:
        return is_key(key) and self.place_of(key).is_dir() and (self.root / MARKER).exists()

    def place_of(self, key: str) -> Path:
        """Where the entry of that key lies, or would."""
        return self.root / "artifacts" / key

    def _prepare(self) -> None:
        """The root with its marker and rooms; StoreError if it is somebody else's."""
        with disk.speaking_of(self.root):
            self.root.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
            foreign = self._foreign()
            if foreign:
                raise StoreError(foreign)
            if not (self.root / MARKER).exists():
                (self.root / MARKER).write_text(_MARKER_TEXT)
            for room in _ROOMS:
                (self.root / room).mkdir(mode=_OWNER_ONLY, exist_ok=True)

    def _staging(self, key: str) -> Path:
        """A new directory of that key, for the holder of its lock only."""
        return Path(tempfile.mkdtemp(prefix=f"{key}-", dir=self.root / "staging"))

    def _sweep(self) -> None:
        """Remove what builders left that were killed."""
        for key in {key_of(path) for path in self.root.glob("staging/*-*")}:
            with self._locked(key, wait=False) as alone:
                if alone:
                    self._clear(key)

    def _clear(self, key: str) -> None:
        for path in self.root.glob(f"staging/{key}-*"):
            disk.discard(path)

    @contextmanager
    def _locked(self, key: str, *, wait: bool = True) -> Iterator[bool]:
        if not (self.root / MARKER).exists():
            raise StoreError(f"{self.root} is not a store: it has no {MARKER!r}.")
        with ExitStack() as stack:
            with disk.speaking_of(self.root):
                path = self.root / "locks" / f"{key}.lock"
                alone = stack.enter_context(locked(path, wait=wait))
            yield alone


def checked(key: str) -> str:
    """The key itself; nothing else may become part of a path."""
    if not is_key(key):
        raise StoreError(f"{key!r} is not a key: 64 hexadecimal digits were expected.")
    return key
