"""Frozen dataclasses to JSON and back, by their annotations alone."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TypeAlias, TypeVar, Union

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None

T = TypeVar("T")
_Decoder: TypeAlias = Callable[[Json], object]


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
    made = _decoder(kind)  # type: ignore[arg-type]  # every class has a hash
    return typing.cast(T, made(data))


@cache
def hints_of(kind: type) -> Mapping[str, object]:
    """A class's annotations; the recursive `Json` stands as ``object``, which any JSON fits."""
    return typing.get_type_hints(kind, localns={"Json": object})


@cache
def _decoder(kind: object) -> _Decoder:
    """What makes one kind of its JSON; found out once, for a sweep holds millions of values."""
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        return _of_union(typing.get_args(kind))
    if origin is tuple:
        return _of_tuple(typing.get_args(kind)[0])
    if origin is not None and issubclass(origin, Mapping):
        return _of_mapping(typing.get_args(kind)[1])
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _of_dataclass(kind)
    if isinstance(kind, type) and issubclass(kind, Enum | Path | str):
        return lambda data: kind(data) if isinstance(data, str) else data
    if kind is float:
        return lambda data: float(data) if isinstance(data, int) else data
    return _as_it_is


def _as_it_is(data: Json) -> object:
    return data


def _of_union(members: tuple[object, ...]) -> _Decoder:
    concrete = [member for member in members if member is not type(None)]
    own = _decoder(concrete[0]) if len(concrete) == 1 else _as_it_is
    optional = type(None) in members
    return lambda data: None if data is None and optional else own(data)


def _of_tuple(item: object) -> _Decoder:
    own = _decoder(item)

    def made(data: Json) -> object:
        if not isinstance(data, Sequence):
            return data
        # A series of a hundred thousand numbers is taken at once, not number by number.
        return tuple(data) if own is _as_it_is else tuple(map(own, data))

    return made


def _of_mapping(item: object) -> _Decoder:
    own = _decoder(item)

    def made(data: Json) -> object:
        if not isinstance(data, Mapping):
            return data
        return {key: own(entry) for key, entry in data.items()}

    return made


def _of_dataclass(kind: type) -> _Decoder:
    names = [field.name for field in dataclasses.fields(kind)]

    def made(data: Json) -> object:
        if not isinstance(data, Mapping):
            return data
        hints = hints_of(kind)  # asked late: a class may hold others of its own kind
        return kind(**{name: _decoder(hints[name])(data[name]) for name in names if name in data})

    return made
