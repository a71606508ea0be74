"""Folders that a user's code lists, and the files in them that its patterns match."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import CodeType

from benchorch.domain.artifact import digest_of
from benchorch.frameworks.identity.distributions import file_digest

_LISTS = frozenset({"listdir", "scandir", "iterdir", "glob", "iglob", "rglob", "walk"})
_WHOLE_TREES = frozenset({"rglob", "walk"})
_MOST_FILES = 10_000
_LARGEST_READ_BYTES = 32 * 2**20
"""Size of all files together up to which their content counts, else size and time."""


def listed(code: CodeType, texts: Sequence[str]) -> Iterator[tuple[Path, list[Path]]]:
    """Each folder below the current one or beside the code that texts name, and what code lists.

    Without a pattern among the texts all files count; with some, those that any of them matches.
    A pattern may also start at the current folder or at the code's.
    """
    if not _LISTS.intersection(code.co_names):
        return
    here = [Path.cwd(), Path(code.co_filename).parent]
    below = [text for text in texts if text.strip("./") and text[0] != "/" and len(text) < 200]
    patterns = [text for text in below if "*" in text]
    named = [text for text in below if "*" not in text]
    inside = {folder / text for folder in here for text in named if (folder / text).is_dir()}
    deep = "**/" if _WHOLE_TREES.intersection(code.co_names) else ""
    for folder in sorted(inside):
        yield folder, _files(folder, patterns or ["*"], deep)
    for folder in dict.fromkeys(here if not inside else []):
        if any(pattern.strip("*/") for pattern in patterns):
            yield folder, _files(folder, patterns, deep)


def _files(folder: Path, patterns: Sequence[str], deep: str) -> list[Path]:
    found: set[Path] = set()
    for pattern in patterns:
        with suppress(ValueError):  # a text that is no pattern
            found.update(islice(folder.glob(deep + pattern), _MOST_FILES))
    return sorted(path for path in found if "__pycache__" not in path.parts)


def listing_digest(folder: Path, files: Sequence[Path]) -> str:
    """How many files, and the digest of their names and content."""
    states = [(path, path.stat()) for path in files if path.exists()]
    small = sum(state.st_size for _, state in states) <= _LARGEST_READ_BYTES
    entries = [
        (str(path.relative_to(folder)), _state(path, state, small)) for path, state in states
    ]
    return f"{len(entries)} {digest_of(dict(entries))[:32]}"


def _state(path: Path, state: os.stat_result, small: bool) -> str:
    """Content of a file where all are small; nothing of a folder."""
    if not path.is_file():
        return ""
    with suppress(OSError):
        if small:
            return file_digest(path)
    return f"{state.st_size} {state.st_mtime_ns}"
