"""The folder that relative names of a trial's files start from, which code of the user's may leave.

A module may change the working directory to find data of its own. Its next lines rely on that, so
it stays changed; what a configuration names is still meant from where the process was before.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class _Departure:
    """Where code of the user's has gone from, and to; void once the process is anywhere else."""

    start: Path | None = None
    there: Path | None = None


@contextmanager
def departures_noted() -> Iterator[None]:
    """Context for code of the user's."""
    before = _working_folder()
    try:
        yield
    finally:
        after = _working_folder()
        if after != before:
            _Departure.start, _Departure.there = _start() or before, after


def from_start(name: str | Path) -> Path:
    """The path; a relative one as it was meant, where the process has left that folder."""
    start = _start()
    return Path(name) if start is None else start / name


def _start() -> Path | None:
    """The folder that was left; None where the process is still in it, or was taken elsewhere."""
    return _Departure.start if _Departure.there == _working_folder() else None


def _working_folder() -> Path:
    """The current one; a name that no folder has where it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.devnull)
