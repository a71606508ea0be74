"""Archive of runs in a bucket: upload while they grow, download on any machine.

The disk of a fleet's head is deleted with it, so a run's files are copied to a bucket below the id
of its plan. A separate process copies, which can be killed and started again at any point.
"""

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TypeAlias, final

from benchorch.errors import ConfigError, StoreError
from benchorch.files import check_inside, open_regular, read_bytes
from benchorch.formatting import first_few, shell_word
from benchorch.journal import lease, lock, run_directory, uploads
from benchorch.journal.reader import read_journal
from benchorch.run.sidecar import Wait, follow
from benchorch.stores.objects import Objects
from benchorch.trial.build_keys import NOTES

POLL_S = 5.0
LONGEST_WAIT_S = 60.0
_LOCAL_FILES = frozenset({lock.LOCK, lease.HOLDER, NOTES, "rebuilt"})
_MOST_SHOWN = 5

LOG = logging.getLogger(__name__)

_Stamp: TypeAlias = tuple[int, int]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """The outcome of an upload.

    Attributes:
        files: how many were copied.
        reason: why some are missing, or an empty string.
    """

    files: int
    reason: str


def archive_run(directory: Path, place: Objects, wait: Wait | None = None) -> Archived:
    """Upload a run; ConfigError if the directory holds none.

    Args:
        wait: where given, changes are copied until it reports the end of the run.
    """
    copy = _Copy(directory=directory, place=place, name=run_directory.read_plan(directory).plan_id)
    if wait is not None:
        follow(copy.once, wait, poll_s=POLL_S, longest_s=LONGEST_WAIT_S)
    copy.once()
    return Archived(files=copy.files, reason=copy.reason)


def archived_runs(place: Objects) -> list[str]:
    """The plan ids of archived runs, the newest first; StoreError."""
    return sorted(place.folders(""), reverse=True)


def download_run(place: Objects, plan_id: str, directory: Path) -> int:
    """Download an archived run into a new directory, whole or not at all; its number of files.

    ConfigError where there is no such run or the directory exists; StoreError where the bucket
    fails.
    """
    if directory.exists():
        raise ConfigError([f"{directory} exists already; name another directory."])
    listed = [found.name.removeprefix(f"{plan_id}/") for found in place.listed(f"{plan_id}/")]
    names = [name for name in listed if not name.startswith(f"{uploads.ATTEMPTS}/")]
    if run_directory.PLAN not in names:
        raise ConfigError([_unfinished(place, plan_id) if names else _no_such(place, plan_id)])
    # Consoles make such names for folders.
    names = [name for name in names if name and not name.endswith("/")]
    for name in names:
        try:
            check_inside(name, directory)
        except ValueError as error:
            raise ConfigError(
                [f"{place.address} has {name!r}, a path outside of the run's directory."]
            ) from error
    above = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    if both := sorted(above & {*names}):
        raise ConfigError([f"{place.address} has {both[0]!r}, a file and a folder in one."])
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".download-", dir=directory.parent) as scratch:
        for name in names:
            path = Path(scratch) / "run" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            place.download(f"{plan_id}/{name}", path)
        if run_directory.RESULTS in names:
            _complete(place, plan_id, Path(scratch) / "run")
        (Path(scratch) / "run").rename(directory)
    return len(names)


def _complete(place: Objects, plan_id: str, directory: Path) -> None:
    """Add the files that nodes have put into the bucket by themselves, as far as they count.

    What a run removes stays in the bucket, and is dropped as the run did: the rounds of trials
    whose result is final, and the winner of the trials that it had before others were added.
    """
    entries, winner = read_journal(directory).entries, directory / run_directory.WINNER
    if winner.exists():
        final = {name for name, entry in entries.items() if entry.result.is_final}
        if {one.trial_id for one in run_directory.read_plan(directory).trials} - final:
            winner.unlink()
    for trial_id, entry in entries.items():
        if entry.result.is_final:
            run_directory.rounds_path(directory, trial_id).unlink(missing_ok=True)
        uploads.complete(
            directory, entry.result, lambda key, path: place.download(f"{plan_id}/{key}", path)
        )


@dataclass(slots=True, kw_only=True)
class _Copy:
    """An upload in progress.

    Attributes:
        copied: size and time of each file when it was copied.
        status: the coordinator's as it was copied last.
        warn: whether the next failure is logged; only the first one is.
    """

    directory: Path
    place: Objects
    name: str
    files: int = 0
    reason: str = ""
    warn: bool = True
    status: bytes = b""
    copied: dict[str, _Stamp] = field(default_factory=dict)

    def once(self) -> bool:
        """Copy what has changed; whether the bucket took it."""
        taken = True
        try:
            self.reason = first_few(self._copy(), _MOST_SHOWN, "; ")
        except StoreError as error:
            self.reason, taken = str(error), False
        if self.reason and self.warn:
            self.warn = False
            later = again(self.directory, self.place)
            LOG.warning("Results stay on this disk: %s; later: %s", self.reason, later)
        return taken

    def _copy(self) -> list[str]:
        """Copy what has changed; why the rest cannot be read; StoreError.

        The coordinator's status is read before all else and copied after it: whoever reads there
        that the run has ended finds every result. The results are read next and copied before it:
        whoever reads one finds its trial's files. An unreadable trial file delays neither.
        """
        status = _status(self.directory)
        results: tuple[bytes, _Stamp] | None = None
        unread: dict[Path, str] = {}

        def refused(path: Path, error: OSError) -> None:
            name = path.relative_to(self.directory)
            gone = isinstance(error, FileNotFoundError | NotADirectoryError)
            if not gone and not _is_local(name):  # some exist only for a moment
                unread[name] = f"{path} cannot be read: {error.strerror or error}"

        try:
            results = self._new_results()
        except OSError as error:
            refused(self.directory / run_directory.RESULTS, error)
        for name, path in _files(self.directory, refused):
            try:
                if name not in (lock.FILE, run_directory.RESULTS):
                    self._upload(name, path)
            except OSError as error:
                refused(path, error)
        if results is not None:
            self._write(run_directory.RESULTS, results[0])
            self.copied[run_directory.RESULTS] = results[1]
        if all(len(name.parts) > 1 for name in unread):
            self._write_status(status)
        return [*unread.values()]

    def _upload(self, name: str, path: Path) -> None:
        """Copy a file if it has changed; OSError where it cannot be read."""
        stamp = _stamp(path.stat())
        if self.copied.get(name) != stamp:
            self.place.upload(f"{self.name}/{name}", path)
            self.copied[name] = stamp
            self.files += 1

    def _new_results(self) -> tuple[bytes, _Stamp] | None:
        """The results with their stamp; None where they have not changed."""
        with open_regular(self.directory / run_directory.RESULTS, links=False) as file:
            stamp = _stamp(os.fstat(file.fileno()))
            return None if self.copied.get(run_directory.RESULTS) == stamp else (file.read(), stamp)

    def _write_status(self, status: bytes) -> None:
        if status and status != self.status:
            self._write(lock.FILE, status)
            self.status = status

    def _write(self, name: str, data: bytes) -> None:
        self.place.write(f"{self.name}/{name}", data)
        self.files += 1


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_size, status.st_mtime_ns


def _status(directory: Path) -> bytes:
    """The coordinator's status; empty before there is one."""
    try:
        return read_bytes(directory / lock.FILE)
    except OSError:
        return b""


def again(directory: Path, place: Objects) -> str:
    """The command that copies the rest once the bucket can be reached."""
    return f"python -m benchorch keep {shell_word(directory)} --at {place.address}"


def _files(
    directory: Path, refused: Callable[[Path, OSError], object]
) -> Iterator[tuple[str, Path]]:
    """A run's files by their names, those of trials first.

    Args:
        refused: receives the folders that cannot be listed.
    """

    def closed(error: OSError) -> None:
        refused(Path(error.filename), error)

    found = [
        (path.relative_to(directory), path)
        for folder, folders, names in os.walk(directory, onerror=closed)
        for path in (Path(folder) / name for name in names)
        if not path.is_symlink()
    ]
    ours = [(name, path) for name, path in found if not _is_local(name)]
    for name, path in sorted(ours, key=lambda one: (len(one[0].parts) == 1, one[0])):
        yield name.as_posix(), path


def _is_local(name: Path) -> bool:
    """Whether a file means nothing elsewhere: a lock, a note or a half-written file."""
    first = {*name.parts[:1]}
    return bool(first & _LOCAL_FILES) or any(part.startswith(".") for part in name.parts)


def _unfinished(place: Objects, plan_id: str) -> str:
    return f"{place.address}/{plan_id} has no {run_directory.PLAN}: it was not copied whole."


def _no_such(place: Objects, plan_id: str) -> str:
    available = first_few(archived_runs(place), _MOST_SHOWN) or "none"
    return f"{place.address} has no run {plan_id!r}; available: {available}."
