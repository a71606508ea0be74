"""Matching of names: exactly, with wildcards, or by a regular expression."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from benchorch.errors import TraceError


def matcher(pattern: str) -> Callable[[str], bool]:
    """The predicate of a pattern.

    ``/gemm|conv/`` is searched for as a regular expression; ``*`` and ``?`` in anything else stand
    for any characters and for one; the rest has to be the same. A name fits itself, whatever
    characters it has.
    """
    if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
        try:
            searched = re.compile(pattern[1:-1])
        except re.error as error:
            raise TraceError(f"{pattern!r} is no regular expression: {error}.") from error
        return lambda name: searched.search(name) is not None
    wild = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    whole = re.compile(wild, re.DOTALL)
    return lambda name: name == pattern or whole.fullmatch(name) is not None


def flags(names: Iterable[str], pattern: str) -> NDArray[np.bool_]:
    """Of each name whether it fits; the array has one entry more, False, for index -1."""
    fits = matcher(pattern)
    return np.array([*(fits(name) for name in names), False], dtype=np.bool_)


def suggest(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` or an empty string."""
    close = difflib.get_close_matches(word, list(map(str, known)), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""
