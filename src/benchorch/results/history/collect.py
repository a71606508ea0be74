"""The runs of a history: those that are named, and those that lie below named folders."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from benchorch.errors import ConfigError, Correction, Problem
from benchorch.files import expanded, open_regular
from benchorch.formatting import shell_word
from benchorch.journal import run_directory
from benchorch.journal.lock import is_running
from benchorch.journal.reader import read_journal
from benchorch.journal.registry import newest_invocations
from benchorch.progress import Say
from benchorch.results.compare import export
from benchorch.results.compare.load_run import load
from benchorch.results.compare.stored_run import StoredRun

MOST_REMEMBERED = 200
"""Default number of this machine's runs."""

_START_BYTES = 200
_OF_A_RUN = "trials"
_OF_A_VOLUME = "lost+found"  # only root may read it


def is_folder_of_runs(reference: str) -> bool:
    """Whether it is a folder that is no run itself."""
    path = expanded(reference)
    return path.is_dir() and not (path / run_directory.PLAN).exists()


def collect(
    references: Sequence[str], say: Say, known: Sequence[StoredRun] = ()
) -> list[StoredRun]:
    """Each run once, in order of time; ConfigError for a named one that cannot be read.

    Of those below a folder, what cannot be read (a run that goes on, or never had a result) and
    what a gate found worse is told and left out.

    Args:
        references: runs, files of `report --json`, and folders of either; this machine's runs
            where there is none.
        known: further runs, such as those that a site holds already.
    """
    found = {run.plan_id: run for run in known}
    problems: list[str] = []
    for reference in references:
        try:
            several = is_folder_of_runs(reference)
            runs = _below(reference, say) if several else [load(reference, say)]
            found |= {run.plan_id: run for run in runs}
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    if not references:
        found |= {run.plan_id: run for run in _readable(_remembered(), say)}
    return sorted(found.values(), key=started_at)


def _below(folder: str, say: Say) -> list[StoredRun]:
    """The runs of a folder; ConfigError where it has none."""
    places = _places(expanded(folder), lambda problem: say(f"left out: {problem}"))
    runs = list(_readable(places, say))
    if not runs:
        problem = (
            f"{folder}: no run below it has a result, and no file of `report --json` is in it."
        )
        raise ConfigError([Problem(problem, Correction(run=folder))])
    return runs


def unreadable(folder: str, say: Say) -> list[str]:
    """Problems of the sessions below a folder that cannot be read, and of folders there.

    A run that goes on, or never had a result, is no session.
    """
    problems: list[str] = []
    for place in _places(expanded(folder), problems.append):
        try:
            if place.is_file() or _has_ended_with_results(place):
                load(str(place), say)
        except ConfigError as error:
            problems += error.problems
    return problems


def _has_ended_with_results(directory: Path) -> bool:
    if is_running(directory):
        return False
    journal = read_journal(directory)
    return bool(journal.entries or journal.damaged)


def started_at(run: StoredRun) -> str:
    """Start of the run's first trial."""
    dates = (one.result.dated_at for one in run.trials if one.result is not None)
    return min(filter(None, dates), default="")


def _remembered() -> Iterator[Path]:
    return (path for path in newest_invocations(MOST_REMEMBERED) if path.is_dir())


def _places(folder: Path, closed: Callable[[str], object]) -> Iterator[Path]:
    """Directories of runs and exported files below a folder.

    Args:
        closed: receives the problem of each folder and file that cannot be read.
    """

    def refused(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # a broken link
            closed(f"{error.filename} cannot be read: {error.strerror}.")

    found = []
    for place, folders, names in os.walk(folder, onerror=refused):
        found.append((Path(place), names))
        no_part = _OF_A_RUN if run_directory.PLAN in names else _OF_A_VOLUME
        folders[:] = [one for one in folders if one != no_part]
    runs = sorted(place for place, names in found if run_directory.PLAN in names)
    yield from runs
    files = (place / name for place, names in found for name in names if name.endswith(".json"))
    for path in sorted(files):
        inside = any(run in path.parents for run in runs)
        try:
            if not inside and _is_exported(path):
                yield path
        except OSError as error:
            refused(error)


def _is_exported(path: Path) -> bool:
    with open_regular(path) as file:
        return f'"format": "{export.FORMAT}"'.encode() in file.read(_START_BYTES)


def _readable(places: Iterable[Path], say: Say) -> Iterator[StoredRun]:
    for place in places:
        if (mark := place / run_directory.GATE_FAILED).exists():
            say(f"left out: {place} failed its gate. To accept it: rm {shell_word(mark)}")
            continue
        try:
            yield load(str(place), say)
        except ConfigError as error:
            say(f"left out: {' '.join(error.problems)}")
