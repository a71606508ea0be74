"""Frozen dataclasses to JSON and back, by their annotations alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
else:
    Json = Any  # what reads annotations at run time does not follow a type that holds itself

T = TypeVar("T")


def encode(value: object) -> Json:
    """A domain value as JSON; raises TypeError for anything that is not one."""
    return _listed(_builtins(value))


def decode(kind: type[T], data: Json) -> T:
    """The domain value that `encode` wrote; ValueError for data of another shape.

    Unknown keys are ignored, so that old code reads new files; missing ones have their defaults.
    """
    return msgspec.convert(data, kind, dec_hook=_custom)


def to_json(value: object) -> bytes:
    """A domain value as one line of JSON text, infinities and NaN included."""
    return json.dumps(_builtins(value)).encode()


def from_json(kind: type[T], text: bytes) -> T:
    """The domain value that `to_json` wrote; ValueError for any other text."""
    return decode(kind, json.loads(text))


def leaves(value: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Each value that holds no others, by its path below `path`: ``steps.export.inputs[0]``."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and value:
        for number, item in enumerate(value):
            yield from leaves(item, f"{path}[{number}]")
    else:
        yield path, value


def with_texts(value: Json, change: Callable[[str], str]) -> Json:
    """The same value with each text changed, but for keys."""
    if isinstance(value, Mapping):
        return {key: with_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_texts(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def _builtins(value: object) -> Json:
    plain: Json = msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)
    return plain


def _listed(value: Json) -> Json:
    """The same with lists in place of tuples, as JSON has it when it is read again."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        # A series of a hundred thousand numbers is converted at once, not number by number.
        scalars = set(map(type, value)) <= {int, float, bool, str}
        return list(value) if scalars else [_listed(item) for item in value]
    return value


def _plain(value: object) -> Json:
    """A value of a type that msgspec leaves to us."""
    if isinstance(value, Path | str):
        return str(value)
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a domain value")


def _custom(kind: type, value: Any) -> object:
    """A path, or a string of a class of its own."""
    return kind(value)
