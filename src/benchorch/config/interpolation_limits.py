"""How much ``${...}`` may stand for: ten texts, each the one before ten times, are billions.

OmegaConf writes out every reference anew. Here each is counted once, from what it names; those
whose name only a resolver can tell, as ``${oc.select:...}``, are counted as they are written out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from benchorch.domain.codec import Json
from benchorch.errors import ConfigError, Problem
from benchorch.formatting import whole_number

MOST_CHARACTERS = 2**20
MOST_DEPTH = 100
"""Of references that name references, and of values within values."""

MOST_WRITTEN_OUT = 500
"""References, and thousands of characters that they stand for, in what is resolved together."""

_REFERENCE = re.compile(r"\$\{\s*+(\.*+)([^\s{}:]*+)\s*+\}")
_PART = re.compile(r"[^.\[\]]+")
_Path = tuple[str, ...]
_left: ContextVar[list[int] | None] = ContextVar("left", default=None)


@contextmanager
def bounded_references() -> Iterator[None]:
    """Until it ends, references are written out as often as `MOST_WRITTEN_OUT` allows.

    The next one raises OmegaConf's error of an interpolation that cannot be resolved.
    """
    _count_references()
    token = _left.set([MOST_WRITTEN_OUT])
    try:
        yield
    finally:
        _left.reset(token)


@cache
def _count_references() -> None:
    """Let every reference that OmegaConf writes out pass here, nested ones and resolvers' own."""
    from omegaconf import Container

    resolve = Container.resolve_parse_tree

    def counted(self: Container, *args: Any, **keywords: Any) -> Any:
        left = _left.get()
        if left is None:
            return resolve(self, *args, **keywords)
        left[0] -= 1
        if left[0] > 0:
            value = resolve(self, *args, **keywords)
            left[0] -= len(value) // 1000 if isinstance(value, str) else 0
            return value
        place = self._get_full_key("") or "The configuration"
        raise ValueError(Problem(f"{place} {_TOO_MUCH}, so it is not resolved; write less."))

    Container.resolve_parse_tree = counted  # type: ignore[method-assign]


_TOO_MUCH = f"refers to others that stand for more than {MOST_WRITTEN_OUT} references"


def check_interpolations(config: Mapping[str, Json]) -> None:
    """ConfigError for a value that stands for too much once its references are written out."""
    _Sizes(config).of(config, ())


class _Sizes:
    """Characters that each node stands for, by its place."""

    def __init__(self, config: Mapping[str, Json]) -> None:
        self._config = config
        self._known: dict[_Path, int] = {}
        self._open: list[_Path] = []

    def of(self, node: Json, path: _Path) -> int:
        """The node's size; one that refers to itself is left to OmegaConf, which refuses it."""
        if path in self._known:
            return self._known[path]
        if path in self._open:
            return 1
        self._open.append(path)
        if len(self._open) > MOST_DEPTH:
            raise _refused(path, f"refers to others more than {MOST_DEPTH} deep")
        size = self._counted(node, path)
        if size > MOST_CHARACTERS:
            raise _refused(path, f"stands for more than {MOST_CHARACTERS} characters")
        self._open.pop()
        self._known[path] = size
        return size

    def _counted(self, node: Json, path: _Path) -> int:
        if isinstance(node, str):
            return len(node) + sum(self._referred(each, path) for each in _REFERENCE.finditer(node))
        if isinstance(node, Mapping):
            return 1 + sum(self.of(value, (*path, str(key))) for key, value in node.items())
        if isinstance(node, Sequence):
            return 1 + sum(self.of(value, (*path, str(at))) for at, value in enumerate(node))
        return 1

    def _referred(self, found: re.Match[str], path: _Path) -> int:
        dots, name = found[1], found[2]
        start = path[: len(path) - len(dots)] if dots else ()
        place = (*start, *_PART.findall(name))
        node: Json = self._config
        for part in place:
            node = _child(node, part)
        return self.of(node, place)


def _child(node: Json, part: str) -> Json:
    """What lies in a node under a name; None where nothing does, which OmegaConf reports."""
    if isinstance(node, Mapping):
        return next((value for key, value in node.items() if str(key) == part), None)
    number = whole_number(part)
    if isinstance(node, list) and number is not None and number < len(node):
        item: Json = node[number]
        return item
    return None


def _refused(path: _Path, why: str) -> ConfigError:
    return ConfigError([f"{'.'.join(path)} {why}, so it is not resolved; write less."])
