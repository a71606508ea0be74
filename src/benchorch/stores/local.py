"""Artifacts in a directory of this machine."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.domain.artifact import Artifact, BuildKey, Format
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
        found = None if force else self.find(key.digest, format)
        if found:
            return found, False
        with self.lock(key.digest):
            found = None if force else self.find_locked(key.digest, format)
            if found:
                return found, False
            return self.build_locked(key, format=format, name=name, make=make), True
