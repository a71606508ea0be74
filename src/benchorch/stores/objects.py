"""Object storage: what a shared store requires of it, and how it may fail."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchorch.errors import StoreError

ABSENT = "*"
"""Stands for the ETag of an object that does not exist."""


class Unreachable(StoreError):
    """The service does not respond now; later it may."""


class Refused(StoreError):
    """Permanent refusal: no credentials, no such bucket."""


class Denied(StoreError):
    """The credentials are valid but lack the permission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """An object as the service reported it.

    Attributes:
        name: relative to the store's prefix, with forward slashes.
        etag: changes whenever the bytes do.
        age_s: since the last write, in whole seconds and by the service's own clock.
    """

    name: str
    etag: str
    size_bytes: int
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The first bytes of an object, or all of them."""

    data: bytes
    info: ObjectInfo


class Objects(ABC):
    """Named bytes, each written atomically; all methods may raise Unreachable, Refused, Denied."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Address for display."""

    @abstractmethod
    def look(self, name: str) -> ObjectInfo | None:
        """An object without its bytes; None if it does not exist."""

    @abstractmethod
    def read(self, name: str, most_bytes: int) -> Content | None:
        """At most so many of an object's bytes; None if it does not exist."""

    @abstractmethod
    def write(self, name: str, data: bytes, *, if_match: str | None = None) -> str | None:
        """The new object's ETag; None, with nothing written, if `if_match` does not match."""

    @abstractmethod
    def remove(self, name: str, *, if_match: str | None = None) -> None:
        """Ensure that it does not exist, unless `if_match` does not match."""

    @abstractmethod
    def upload(self, name: str, path: Path) -> None:
        """Store a file's bytes; they are visible once all are there."""

    @abstractmethod
    def add(self, name: str, path: Path) -> None:
        """Store a file's bytes unless the object exists already."""

    @abstractmethod
    def download(self, name: str, path: Path) -> bool:
        """Whether the object existed and was written to a file."""

    @abstractmethod
    def copy(self, name: str, to: str) -> None:
        """Store the same bytes under another name, too."""

    @abstractmethod
    def listed(self, prefix: str) -> Sequence[ObjectInfo]:
        """Every object whose name begins with a prefix."""

    @abstractmethod
    def folders(self, prefix: str) -> Sequence[str]:
        """Name parts between a prefix that ends in a slash and the next slash, each once."""

    @abstractmethod
    def abort_uploads(self, prefix: str) -> None:
        """Free what unfinished uploads below a prefix occupy."""
