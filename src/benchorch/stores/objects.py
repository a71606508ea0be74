"""What a store asks of a service that keeps objects, and how the service may fail it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchorch.errors import StoreError

ABSENT = "*"
"""Stands for the mark of an object that is not there."""


class Unreachable(StoreError):
    """The service does not answer, or cannot at the moment; later it may."""


class Refused(StoreError):
    """Nothing can be had from it as it is named: no credentials, no such bucket."""


class Denied(StoreError):
    """It knows who asks, and that is not for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """An object as it was when the service told of it.

    Attributes:
        name: relative to the store's place, with forward slashes.
        mark: another one whenever other bytes are there.
        age_s: since it was last written, in whole seconds and by the service's own clock.
    """

    name: str
    mark: str
    size_bytes: int
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The first bytes of an object, or all of them."""

    data: bytes
    seen: ObjectInfo


class Objects(ABC):
    """Named bytes, each written at once; every method may raise Unreachable, Refused or Denied."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Where they are, for people."""

    @abstractmethod
    def look(self, name: str) -> ObjectInfo | None:
        """How an object is, without its bytes; None if there is none."""

    @abstractmethod
    def read(self, name: str, most_bytes: int) -> Content | None:
        """An object's bytes, no more than so many; None if there is none."""

    @abstractmethod
    def write(self, name: str, data: bytes, *, if_is: str | None = None) -> str | None:
        """The new object's mark; None, and nothing written, if another than `if_is` is there."""

    @abstractmethod
    def remove(self, name: str, *, if_is: str | None = None) -> None:
        """Make sure that it is not there, unless another than `if_is` is."""

    @abstractmethod
    def upload(self, name: str, path: Path) -> None:
        """Keep a file's bytes; they are seen once they are all there."""

    @abstractmethod
    def download(self, name: str, path: Path) -> bool:
        """Whether the object was there to be written to a file."""

    @abstractmethod
    def copy(self, name: str, to: str) -> None:
        """Keep the same bytes under another name, too."""

    @abstractmethod
    def listed(self, prefix: str) -> Sequence[ObjectInfo]:
        """Every object whose name begins so."""

    @abstractmethod
    def folders(self, prefix: str) -> Sequence[str]:
        """What comes between a prefix that ends in a slash and the next slash, each once."""

    @abstractmethod
    def forget_unfinished(self, prefix: str) -> None:
        """Free what uploads hold that were begun below a prefix and never ended."""
