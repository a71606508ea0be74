"""Frozen dataclasses to JSON and back, by their annotations alone."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TypeAlias, TypeVar, Union

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None

T = TypeVar("T")


def encode(value: object) -> Json:
    """A domain value as JSON; raises TypeError for anything that is not one."""
    if value is None or isinstance(value, bool | int | float | str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Path):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        # A series of a hundred thousand numbers is looked at once, not number by number.
        plain = set(map(type, value)) <= {int, float, bool, str}
        return list(value) if plain else [encode(item) for item in value]
    raise TypeError(f"{type(value).__name__} is not a domain value")


def decode(kind: type[T], data: Json) -> T:
    """The domain value that `encode` wrote; unknown keys are ignored: old code reads new files."""
    return typing.cast(T, _decode(kind, data))


@cache
def hints_of(kind: type) -> Mapping[str, object]:
    """A class's annotations; the recursive `Json` stands as ``object``, which any JSON fits."""
    return typing.get_type_hints(kind, localns={"Json": object})


def _decode(kind: object, data: Json) -> object:
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(typing.get_args(kind), data)
    if origin is tuple and isinstance(data, Sequence):
        item = typing.get_args(kind)[0]
        return tuple(_decode(item, entry) for entry in data)
    if origin is not None and issubclass(origin, Mapping) and isinstance(data, Mapping):
        value = typing.get_args(kind)[1]
        return {key: _decode(value, entry) for key, entry in data.items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(data, Mapping):
        hints = hints_of(kind)
        known = [f.name for f in dataclasses.fields(kind) if f.name in data]
        return kind(**{name: _decode(hints[name], data[name]) for name in known})
    if isinstance(kind, type) and issubclass(kind, Enum | Path | str) and isinstance(data, str):
        return kind(data)
    return float(data) if kind is float and isinstance(data, int) else data


def _decode_union(members: tuple[object, ...], data: Json) -> object:
    if data is None and type(None) in members:
        return None
    concrete = [member for member in members if member is not type(None)]
    return _decode(concrete[0], data) if len(concrete) == 1 else data
