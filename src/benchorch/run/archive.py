"""A run's directory in a bucket: copied there while it grows, fetched from there on any machine.

The head of a fleet takes its disk along when it ends. What a run has written is therefore kept in a
bucket, below the id of its plan. Copying never disturbs the run: it is a process of its own, which
can be killed and started again at any point.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

from benchorch.errors import ConfigError, StoreError
from benchorch.executors.scheduling.file_transfer import check_inside
from benchorch.journal import lock, run_directory
from benchorch.run.sidecar import Wait, follow
from benchorch.stores.objects import Objects
from benchorch.trial.build_keys import NOTES

PLACE_VARIABLE = "BENCHORCH_RESULTS_URL"
"""Where runs are kept that say nothing else; a head's environment has it."""

POLL_S = 5.0
LONGEST_WAIT_S = 60.0
_NOBODY_ELSES = frozenset({lock.LOCK, NOTES, "rebuilt"})
_PLACES_SHOWN = 5

LOG = logging.getLogger(__name__)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """What a copy came to.

    Attributes:
        files: how many were brought.
        reason: why some are missing, or an empty string.
    """

    files: int
    reason: str


def keep(directory: Path, place: Objects, wait: Wait | None = None) -> Archived:
    """Copy a run; ConfigError if the directory holds none.

    Args:
        wait: where given, whatever changes is copied until it says that the run has ended.
    """
    copy = _Copy(directory=directory, place=place, name=run_directory.read_plan(directory).plan_id)
    if wait is not None:
        follow(copy.once, wait, poll_s=POLL_S, longest_s=LONGEST_WAIT_S)
    copy.once()
    return Archived(files=copy.files, reason=copy.reason)


def kept_runs(place: Objects) -> list[str]:
    """The ids of the plans whose runs are kept there, the newest first; StoreError."""
    return sorted(place.folders(""), reverse=True)


def fetch(place: Objects, plan_id: str, directory: Path) -> int:
    """Bring a kept run into a directory that is not there yet; how many files it has.

    It appears whole or not at all. ConfigError where there is no such run, or the directory is
    there; StoreError where the bucket does not give it.
    """
    if directory.exists():
        raise ConfigError([f"{directory} is there already; name another directory."])
    names = [seen.name.removeprefix(f"{plan_id}/") for seen in place.listed(f"{plan_id}/")]
    if run_directory.PLAN not in names:
        raise ConfigError([_no_such(place, plan_id)])
    for name in names:
        try:
            check_inside(name, directory)
        except ValueError as error:
            raise ConfigError(
                [f"{place.address} holds {name!r}, which leads out of the run."]
            ) from error
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".fetched-", dir=directory.parent) as half:
        for name in names:
            path = Path(half) / "run" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            place.download(f"{plan_id}/{name}", path)
        (Path(half) / "run").rename(directory)
    return len(names)


def fetch_all(place: Objects, folder: Path) -> list[Path]:
    """Bring every kept run that this folder does not have, or not all of; where they are now.

    ConfigError and StoreError as for `fetch`.
    """
    brought = []
    for plan_id in kept_runs(place):
        directory = folder / plan_id
        if directory.exists():
            if _results_bytes(directory) == _kept_bytes(place, plan_id):
                continue
            directory = folder / f"{plan_id}-later"
        fetch(place, plan_id, directory)
        brought.append(directory)
    return brought


def _results_bytes(directory: Path) -> int:
    path = directory / run_directory.RESULTS
    return path.stat().st_size if path.exists() else 0


def _kept_bytes(place: Objects, plan_id: str) -> int:
    seen = place.look(f"{plan_id}/{run_directory.RESULTS}")
    return seen.size_bytes if seen else 0


@dataclass(slots=True, kw_only=True)
class _Copy:
    """A copy under way.

    Attributes:
        seen: size and time of each file when it was brought.
        aloud: whether the next trouble is still to be said; only the first one is.
    """

    directory: Path
    place: Objects
    name: str
    files: int = 0
    reason: str = ""
    aloud: bool = True
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    def once(self) -> bool:
        """Bring whatever has changed; whether nothing failed."""
        try:
            for name, path in _files(self.directory):
                self._bring(name, path)
        except StoreError as error:
            self.reason = str(error)
            if self.aloud:
                self.aloud = False
                LOG.warning(
                    "Results stay on this disk: %s; later: %s",
                    error,
                    again(self.directory, self.place),
                )
            return False
        self.reason = ""
        return True

    def _bring(self, name: str, path: Path) -> None:
        try:
            status = path.stat()
            stamp = (status.st_size, status.st_mtime_ns)
            if self.seen.get(name) == stamp:
                return
            self.place.upload(f"{self.name}/{name}", path)
        except OSError:  # one that was there only for a moment
            return
        self.seen[name] = stamp
        self.files += 1


def again(directory: Path, place: Objects) -> str:
    """What copies the rest once the bucket can be reached."""
    return f"python -m benchorch keep {directory} --at {place.address}"


def _files(directory: Path) -> Iterator[tuple[str, Path]]:
    """A run's files by their names in it; lists of trials come after what they tell of."""
    found = [
        (path.relative_to(directory), path)
        for folder, folders, names in os.walk(directory)
        for path in (Path(folder) / name for name in names)
        if not path.is_symlink()
    ]
    ours = [(name, path) for name, path in found if not _stays(name)]
    for name, path in sorted(ours, key=lambda one: (len(one[0].parts) == 1, one[0])):
        yield name.as_posix(), path


def _stays(name: Path) -> bool:
    """Locks and notes are this process's own, and what begins with a dot is half written."""
    return name.parts[0] in _NOBODY_ELSES or any(part.startswith(".") for part in name.parts)


def _no_such(place: Objects, plan_id: str) -> str:
    found = kept_runs(place)
    have = ", ".join(found[:_PLACES_SHOWN]) or "none"
    more = f" and {len(found) - _PLACES_SHOWN} more" if len(found) > _PLACES_SHOWN else ""
    return f"{place.address} has no run {plan_id!r}; it has: {have}{more}."
