"""Which instances hold more than Python's attributes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from benchorch.frameworks.identity.walk import _hides_state


class Plain: ...


class Slots:
    __slots__ = ("first", "second")


class Child(Slots): ...


class Number(float): ...


class Mapped(map): ...  # type: ignore[type-arg]


class Repeated(itertools.repeat): ...  # type: ignore[type-arg]


@pytest.mark.parametrize("kind", [Plain, Slots, Child])
def test_a_class_of_python_hides_nothing(kind: type[Any]) -> None:
    assert not _hides_state(kind)


@pytest.mark.parametrize("kind", [Number, Mapped, Repeated])
def test_a_class_on_a_native_one_hides_its_content(kind: type[Any]) -> None:
    assert _hides_state(kind)
