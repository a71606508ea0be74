"""Artifact stores."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchorch.domain.artifact import Artifact, BuildKey, Format
from benchorch.domain.trial import ConfigNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Artifact in a store.

    Attributes:
        artifact: the files.
        name: for people and for ``rebuild=never``: model, conversion and input shapes.
        fields: the BuildKey's fields.
        created_at: ISO 8601, UTC.
        state: ``complete``, ``failed``, ``quarantined`` or ``dropped`` (evicted).
        detail: why it is not complete, or an empty string.
        remote: where other machines find it, or an empty string; the artifact's path is its place
            on this machine, whether or not it is there.
        signed_by: the public key of who built it, or an empty string.
    """

    artifact: Artifact
    name: str
    fields: ConfigNode
    created_at: str
    state: str
    detail: str = ""
    remote: str = ""
    signed_by: str = ""


class Store(ABC):
    """Immutable artifacts by BuildKey: atomic writes, one builder at a time, verified reads."""

    @abstractmethod
    def problems(self) -> Sequence[str]:
        """Why nothing can be kept here, one sentence each; changes nothing that exists."""

    def is_shared(self) -> bool:
        """Whether machines without a shared file system find what others have built."""
        return False

    @abstractmethod
    def find(self, key: str, format: Format | None = None) -> Artifact | None:
        """The complete, verified artifact of this key; a corrupt one is quarantined, then None.

        None also where it may hold code and no trusted key has signed it.

        Args:
            key: digest of the BuildKey.
            format: what the files will be loaded as; None where they are not loaded.
        """

    @abstractmethod
    def build(
        self,
        key: BuildKey,
        *,
        format: Format,
        name: str,
        make: Callable[[Path], None],
        force: bool = False,
    ) -> tuple[Artifact, bool]:
        """The artifact, and whether this call built it.

        One builder at a time in all processes: others wait and then reuse. `make` fills an empty
        directory; when it raises, the failure is recorded for people and raised again, and
        nothing partial is ever visible. ``force`` builds even if one exists.
        """

    @abstractmethod
    def newest(self, name: str) -> Entry | None:
        """The newest complete artifact of that name, whatever its key."""

    @abstractmethod
    def scratch(self, key: str) -> Path:
        """The key's own directory for a compiler's cache; not an artifact."""

    def stamps(self) -> Path | None:
        """Directory for notes on loaded models on this machine; None: nowhere."""
        return None

    @abstractmethod
    def entries(self) -> Sequence[Entry]:
        """All entries, newest first, failed and quarantined ones too."""

    @abstractmethod
    def in_use(self) -> AbstractContextManager[None]:
        """While this is open, no process evicts what any process finds or builds; then `trim`."""

    @abstractmethod
    def trim(self) -> Sequence[str]:
        """Evict the least recently used artifacts until the quota is kept; the keys.

        What may be in use stays, and an evicted artifact's manifest is kept.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove one artifact and its scratch; StoreError if there is none."""
