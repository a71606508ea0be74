"""Progress of work that takes longer than a moment."""

import time
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

SILENT_S = 2.0
EVERY_S = 10.0

T = TypeVar("T")
Say = Callable[[str], None]


def silent(text: str) -> None:
    """Progress function that reports nothing."""


def counted(items: Collection[T], doing: str, say: Say) -> Iterator[T]:
    """Each of the items; reports progress after two seconds, and then every ten.

    Args:
        items: what takes time is done with each by whoever goes through them.
        doing: such as ``reading results``.
        say: told one line at a time.
    """
    next_s = time.monotonic() + SILENT_S
    for done, item in enumerate(items):
        if time.monotonic() >= next_s:
            say(f"{doing}: {done:,} of {len(items):,}")
            next_s = time.monotonic() + EVERY_S
        yield item
