"""A revision of the user's repository in a private folder, for as long as it is measured."""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchorch.errors import ConfigError
from benchorch.host.environment import WITHOUT_HOOKS

_GIT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A folder of a repository, and the same folder at another revision.

    Attributes:
        root, top: the repository, and where the revision was checked out.
        folder: the counterpart of the folder that was asked for.
        commit: its full name.
        submodules: whether it has any; they are left empty.
    """

    root: Path
    top: Path
    folder: Path
    commit: str
    submodules: bool


@contextlib.contextmanager
def checked_out(revision: str, folder: Path) -> Iterator[Checkout]:
    """Check a revision out of the repository that a folder is in; removed in the end.

    Raises ConfigError where there is no such repository, revision or folder.
    """
    root = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
    commit = _commit(root, revision)
    with tempfile.TemporaryDirectory(prefix="benchorch-duel-") as private:
        top = Path(private).resolve() / root.name
        _git(root, "worktree", "add", "--quiet", "--detach", "--", str(top), commit)
        try:
            there = top / folder.resolve().relative_to(root.resolve())
            if not there.is_dir():
                raise ConfigError([f"--against {revision}: it has no folder {there.name}."])
            yield Checkout(
                root=root.resolve(),
                top=top,
                folder=there,
                commit=commit,
                submodules=(top / ".gitmodules").exists(),
            )
        finally:
            with contextlib.suppress(ConfigError):  # the folder goes in any case
                _git(root, "worktree", "remove", "--force", "--force", "--", str(top))


def _commit(root: Path, revision: str) -> str:
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    try:
        return _git(root, *words).strip()
    except ConfigError as error:
        problem = (
            f"--against {revision}: no such commit, branch or tag in {root}. In a shallow clone "
            "fetch it first: git fetch origin REV."
        )
        raise ConfigError([problem]) from error


def _git(folder: Path, *words: str) -> str:
    """What git answers; ConfigError with its own words where it refuses."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *WITHOUT_HOOKS, *words],
            capture_output=True,
            text=True,
            timeout=_GIT_S,
            check=True,
        )
    except FileNotFoundError as error:
        raise ConfigError(["--against needs git, which is not installed here."]) from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        raise ConfigError([f"git {words[0]} in {folder}: {lines[-1]}"]) from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError([f"git {words[0]} in {folder}: no answer in {_GIT_S} s."]) from error
    return answer.stdout
