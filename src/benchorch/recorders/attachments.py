"""Files that become artifacts of a run, without secrets."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchorch.journal.lock import LOCK
from benchorch.recorders import location

OWN_FILES = frozenset({"recorded.jsonl", "tracking.json", LOCK})
"""Files of a run's directory that say nothing to its readers: the recorder's own, and the lock."""


def below(directory: Path) -> Iterator[tuple[Path, str]]:
    """Each file of a directory and its folders, with its artifact folder."""
    return _visible(directory, directory.rglob("*"))


def directly_in(directory: Path) -> Iterator[tuple[Path, str]]:
    """Each file of a directory, not of its folders."""
    return _visible(directory, directory.glob("*"))


def _visible(directory: Path, paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Without hidden files, which are unfinished or another program's."""
    for path in sorted(paths):
        relative = path.relative_to(directory)
        hidden = any(part.startswith(".") for part in relative.parts)
        if path.is_file() and not hidden and path.name not in OWN_FILES:
            yield path, "" if relative.parent == Path() else relative.parent.as_posix()


@contextmanager
def without_secrets(path: Path, uri: str) -> Iterator[Path]:
    """The file, or a copy of it without the tracker's password."""
    hidden = [secret.encode() for secret in location.secrets(uri)]
    if not hidden or not any(secret in path.read_bytes() for secret in hidden):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.write_text(location.scrubbed(path.read_text(encoding="utf-8"), uri), encoding="utf-8")
        yield copy
