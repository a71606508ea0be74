"""Texts by dotted path: what an identity is made of, so that a difference has a name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchorch.domain.artifact import digest_of

LONGEST_TEXT = 120
MOST_ITEMS = 64
"""Items of one container that are kept apart; larger ones leave a digest."""


@dataclass(slots=True)
class Leaves:
    """Texts by path, in groups: ``module``, ``code``, ``globals``, ``packages``...

    Attributes:
        unhashable: what nobody can look into, by path.
    """

    groups: dict[str, dict[str, str]] = field(default_factory=dict)
    unhashable: dict[str, str] = field(default_factory=dict)

    def put(self, path: str, text: str) -> None:
        """Keep a text at ``group.path``; another one at the same path is kept beside it."""
        group, _, name = path.partition(".")
        if len(text) > LONGEST_TEXT:
            text = f"{text[:20]}... {digest_of(text)[:32]}"
        place = self.groups.setdefault(group, {})
        key, number = name or "<kind>", 1
        while place.get(key, text) != text:
            number += 1
            key = f"{name}#{number}"
        place[key] = text

    def refuse(self, path: str, reason: str) -> None:
        """Note that there is something at a path which cannot be hashed."""
        self.unhashable.setdefault(path, reason)

    @contextmanager
    def folded(self, path: str, what: str) -> Iterator[None]:
        """Keep one digest instead of everything that is put meanwhile below a path."""
        outer, self.groups = self.groups, {}
        try:
            yield
        finally:
            inner, self.groups = self.groups, outer
            below = inner.pop(path.partition(".")[0], {})
            for group, texts in inner.items():
                self.groups.setdefault(group, {}).update(texts)
            self.put(path, f"{what} {digest_of(dict(below))[:32]}")


def grouped(leaves: Mapping[str, str], most: int) -> dict[str, str]:
    """The same texts, or one digest of each first part where they are too many to read."""
    if len(leaves) <= most:
        return dict(leaves)
    parts: dict[str, dict[str, str]] = {}
    for path, text in leaves.items():
        parts.setdefault(path.partition(".")[0], {})[path] = text
    return {name: f"{len(one)} values {digest_of(dict(one))[:32]}" for name, one in parts.items()}
