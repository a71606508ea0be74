"""Where artifacts are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchorch.domain.artifact import Artifact, BuildKey, Format
from benchorch.domain.trial import ConfigNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a store knows of one artifact.

    Attributes:
        artifact: the files.
        name: for people and for ``rebuild=never``: model, chain and input shapes.
        fields: the BuildKey's fields.
        created_at: ISO 8601, UTC.
        state: ``complete``, ``failed``, ``quarantined`` or ``dropped``.
        detail: why it is not complete, or an empty string.
        remote: where other machines find it, or an empty string; the artifact's path is where it
            lies on this machine, or would.
    """

    artifact: Artifact
    name: str
    fields: ConfigNode
    created_at: str
    state: str
    detail: str = ""
    remote: str = ""


class Store(ABC):
    """Immutable artifacts by BuildKey: atomic writes, one builder at a time, verified reads."""

    @abstractmethod
    def problems(self) -> Sequence[str]:
        """Why nothing can be kept here, one sentence each; touches nothing that exists."""

    def is_shared(self) -> bool:
        """Whether machines without a common disk find what others have built."""
        return False

    @abstractmethod
    def find(self, key: str) -> Artifact | None:
        """The complete, verified artifact of this key; a corrupt one is quarantined, then None."""

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
        directory; when it raises, the failure is remembered for people and raised again, and
        nothing partial is ever visible. ``force`` builds even if one exists.
        """

    @abstractmethod
    def newest(self, name: str) -> Entry | None:
        """The newest complete artifact of that name, whatever its key."""

    @abstractmethod
    def scratch(self, key: str) -> Path:
        """A directory of that key's own for a compiler's cache; not an artifact."""

    @abstractmethod
    def entries(self) -> Sequence[Entry]:
        """Everything kept, newest first, failed and quarantined too."""

    @abstractmethod
    def in_use(self) -> AbstractContextManager[None]:
        """While this is open, no process drops what anybody finds or builds; then room is made."""

    @abstractmethod
    def trim(self) -> Sequence[str]:
        """Drop what was used longest ago until the store is as small as it is to be; the keys.

        What may be in use stays, and of what goes it is remembered that it was built.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove one artifact and its scratch; StoreError if there is none."""
