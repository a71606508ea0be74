"""Artifacts in a directory of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.domain.artifact import Artifact, BuildKey, Format
from benchorch.interfaces.store import Entry, Store
from benchorch.stores.shelf import ArtifactDirectory


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
        _ = self._shelf  # which refuses what makes no sense

    @property
    def _shelf(self) -> ArtifactDirectory:
        return ArtifactDirectory.at(self.root, self.quota_gib)

    def problems(self) -> Sequence[str]:
        """Why nothing can be kept below the root, one sentence each."""
        return self._shelf.problems()

    def find(self, key: str) -> Artifact | None:
        """The complete, verified artifact of this key."""
        return self._shelf.find(key)

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
        shelf, digest = self._shelf, key.digest
        found = None if force else shelf.find(digest)
        if found:
            return found, False
        with shelf.alone(digest):
            found = None if force else shelf.find_alone(digest)
            if found:
                return found, False
            return shelf.build_alone(key, format=format, name=name, make=make), True

    def newest(self, name: str) -> Entry | None:
        """The newest complete and verified artifact of that name."""
        return self._shelf.newest(name)

    def scratch(self, key: str) -> Path:
        """A directory below the root for a compiler's cache."""
        return self._shelf.scratch(key)

    def entries(self) -> Sequence[Entry]:
        """Everything kept, newest first; nothing is verified here."""
        return self._shelf.entries()

    def in_use(self) -> AbstractContextManager[None]:
        """Until it ends, this process and its children keep what they find; then room is made."""
        return self._shelf.in_use()

    def trim(self) -> Sequence[str]:
        """Drop what was used longest ago until the quota is kept; what may be in use stays."""
        return self._shelf.trim()

    def delete(self, key: str) -> None:
        """Remove the artifact, all that is remembered of it, and its scratch."""
        self._shelf.delete(key)
