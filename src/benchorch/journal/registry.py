"""Index of this machine's invocations, by which ``resume=<plan id or MLflow run>`` finds them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from benchorch.errors import ConfigError, Correction, Problem
from benchorch.files import (
    expanded,
    read_bytes,
    read_json,
    read_text,
    user_directory,
    write_text,
)
from benchorch.journal import run_directory
from benchorch.journal.chain import UNREADABLE
from benchorch.journal.lock import is_running
from benchorch.locks import locked

_LOOKED_AT = 20
_MOST = 100
_OF_RUNNING = ("open", "status", "logs", "cancel")
_LAST = re.compile(r"last(?:~(\d{1,3}))?")


def state_directory() -> Path:
    """Directory of what one invocation leaves for the next ones."""
    variable = "XDG_STATE_HOME"
    return user_directory(os.environ.get(variable) or "~/.local/state", variable)


def _index() -> Path:
    return state_directory() / "invocations.jsonl"


def remember(plan_id: str, directory: Path) -> None:
    """Add an invocation's directory to the index."""
    index = _index()
    index.parent.mkdir(parents=True, exist_ok=True)
    with locked(index.with_suffix(".lock")):  # every run on this machine writes here
        _heal(index)
        run_directory.append_line(
            index, {"plan_id": plan_id, "directory": str(directory.resolve())}
        )


def remember_plan(plan_id: str, directory: Path) -> None:
    """Record the digest of this user's own plan, so that a changed or foreign one is detected."""
    note = _plan_note(plan_id)
    note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_text(note, _digest_of_plan(directory))


def is_own(plan_id: str, directory: Path) -> bool:
    """Whether a directory holds a plan as this user's invocation left it."""
    try:
        return read_text(_plan_note(plan_id)) == _digest_of_plan(directory)
    except OSError:
        return False


def _plan_note(plan_id: str) -> Path:
    return state_directory() / "plans" / hashlib.sha256(plan_id.encode()).hexdigest()


def _digest_of_plan(directory: Path) -> str:
    return hashlib.sha256(read_bytes(directory / run_directory.PLAN)).hexdigest()


def new_directory() -> Path:
    """The default directory of a run, as the configuration has it."""
    return Path(f"{datetime.now():runs/%Y-%m-%d/%H-%M-%S-%f}")  # noqa: DTZ005 local, as Hydra's


def newest_invocations(count: int) -> list[Path]:
    """The directories of the last invocations on this machine, the newest first."""
    directories = [directory for _, directory in _known()]
    return list(dict.fromkeys(reversed(directories)))[:count]


def latest_invocations(count: int, *, ended: bool = True) -> list[Path]:
    """The last invocations of the current folder, the newest first; of any if it has none.

    They lie in the folder or below it, or were planned there.

    Args:
        ended: whether those that are going on are left out.
    """
    here, of_here, others = Path.cwd().resolve(), list[Path](), list[Path]()
    for one in newest_invocations(_MOST):
        if len(of_here) == count:
            break
        if (one / run_directory.PLAN).is_file() and not (ended and is_running(one)):
            is_of_here = one.is_relative_to(here) or _planned_in(one, here)
            (of_here if is_of_here else others).append(one)
    return of_here or others[:count]


def _planned_in(directory: Path, folder: Path) -> bool:
    with contextlib.suppress(OSError, *UNREADABLE):
        return Path(read_json(directory / run_directory.PLAN)["session"]["cwd"]) == folder
    return False


def others_running(directory: Path) -> list[Path]:
    """Other active runs among this machine's newest ones."""
    own = directory.resolve()
    return [one for one in newest_invocations(_LOOKED_AT) if one != own and is_running(one)]


def newest_plans(count: int) -> list[str]:
    """The ids of the last plans on this machine, the newest first."""
    return list(dict.fromkeys(reversed([plan_id for plan_id, _ in _known()])))[:count]


def _known() -> Iterator[tuple[str, Path]]:
    """Plan id and directory of each invocation; damaged lines are left out."""
    for line in run_directory.read_lines(_index()):
        plan_id, directory = line.get("plan_id"), line.get("directory")
        if isinstance(plan_id, str) and isinstance(directory, str) and directory.isprintable():
            yield plan_id, Path(directory)


def _heal(index: Path) -> None:
    """Write the index without its damaged lines, where it has any."""
    known = [{"plan_id": plan_id, "directory": str(path)} for plan_id, path in _known()]
    if len(known) < run_directory.count_lines(index):
        write_text(index, "".join(f"{json.dumps(line)}\n" for line in known))


def find_invocation(reference: str, word: str = "resume") -> Path:
    """The directory of an invocation named by its path, its plan id or its MLflow run id.

    Of indexed directories the last part of the path is enough; ``last`` is the newest of
    `latest_invocations`, ``last~1`` the one before.

    Args:
        word: the command, for the message where there is none.
    """
    path = expanded(reference)
    if os.path.lexists(path / run_directory.PLAN):
        _refuse_links(path)
        return path
    if back := _LAST.fullmatch(reference):
        count = int(back[1] or 0)
        found = latest_invocations(count + 1, ended=word not in _OF_RUNNING)
        return _existing(found[count:], reference, word)
    known = [directory for plan_id, directory in _known() if plan_id == reference]
    everywhere = (directory for _, directory in _known())
    for directory in (*known, *everywhere):
        if directory in known and (directory / run_directory.PLAN).exists():
            return directory
        if _parent_run(directory) == reference or directory.name == reference:
            return directory
    return _existing((), reference, word)


def _existing(found: Sequence[Path], reference: str, word: str) -> Path:
    """The first of the directories; ConfigError where there is none."""
    if found:
        return found[0]
    raise ConfigError(
        [
            Problem(
                f"{word}: {reference!r} is neither a run's directory nor the id of a plan or of an "
                "MLflow parent run that ran on this machine.",
                Correction(run=reference),
            )
        ],
        next="benchorch status",
    )


def _refuse_links(directory: Path) -> None:
    """ConfigError where a folder that no run of this machine made holds more than files.

    What is read of it ends up in a page or at a tracker, what is written to it where a link leads,
    and a pipe is never read to its end.
    """
    odd = next(_odd_entries(directory), None)
    if odd is None or any(one == directory.resolve() for _, one in _known()):
        return
    what = "a link" if odd.is_symlink() or odd.is_file() else "not a file"
    raise ConfigError(
        [f"{odd} is {what}, and this machine did not make that run: remove it first."]
    )


def _odd_entries(directory: Path) -> Iterator[Path]:
    """Links, files with a second name (which may lie elsewhere), pipes and devices."""
    for folder, folders, files in os.walk(directory):
        for path in (Path(folder, name) for name in (*folders, *files)):
            found = path.lstat()
            is_own = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
            if not (is_own or stat.S_ISDIR(found.st_mode)):
                yield path


def _parent_run(directory: Path) -> str | None:
    with contextlib.suppress(OSError, *UNREADABLE):
        return str(read_json(directory / "tracking.json")["parent_run_id"])
    return None
