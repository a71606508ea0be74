"""Artifacts in a directory of this machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.domain.artifact import Artifact, BuildKey, Format
from benchorch.interfaces.store import Entry
from benchorch.stores.artifact_directory import DirectoryStore


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStore(DirectoryStore):
    """Keeps artifacts below one directory, readable by its owner only.

    Args:
        root: the directory; ``~`` is the user's own. Made when first needed.
        quota_gib: size limit of unused artifacts and compilers' caches; the least recently used
            are evicted. 0 keeps none, null keeps all.
    """

    def find(self, key: str, format: Format | None = None) -> Artifact | None:
        """The complete, verified artifact of this key."""
        return self.directory.find(key, format)

    def build(
        self,
        key: BuildKey,
        *,
        format: Format,
        name: str,
        make: Callable[[Path], None],
        force: bool = False,
    ) -> tuple[Artifact, bool]:
        """The artifact, and whether this call built it; other builders of the key wait."""
        directory, digest = self.directory, key.digest
        found = None if force else directory.find(digest, format)
        if found:
            return found, False
        with directory.lock(digest):
            found = None if force else directory.find_locked(digest, format)
            if found:
                return found, False
            return directory.build_locked(key, format=format, name=name, make=make), True

    def newest(self, name: str) -> Entry | None:
        """The newest complete and verified artifact of that name."""
        return self.directory.newest(name)

    def entries(self) -> Sequence[Entry]:
        """Everything kept, newest first; nothing is verified here."""
        return self.directory.entries()

    def delete(self, key: str) -> None:
        """Remove the artifact, every record of it, and its scratch."""
        self.directory.delete(key)
