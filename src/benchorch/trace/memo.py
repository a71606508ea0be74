"""Results that are worked out once for each immutable value."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar


class Memoizing(Protocol):
    """A value that carries results worked out of it; a changed copy begins with none."""

    @property
    def known(self) -> dict[str, Any]:
        """Results by the qualified name of the function."""


V = TypeVar("V", bound=Memoizing)
T = TypeVar("T")


def once(work: Callable[[V], T]) -> Callable[[V], T]:
    """Cache the result of a function with its argument."""
    key = f"{work.__module__}.{work.__qualname__}"

    @wraps(work)
    def cached(value: V) -> T:
        if key not in value.known:
            value.known[key] = work(value)
        result: T = value.known[key]
        return result

    return cached
