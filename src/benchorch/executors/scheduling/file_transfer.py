"""File transfer to and from nodes without a shared file system.

Only regular files are shipped, by names relative to one folder; a name that leads anywhere else is
rejected. Nothing of them is executed or unpickled on the way. A link to a file is sent to nodes as
that file, at the link's own path; what nodes send back has no links.
"""

import ast
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from benchorch.domain.codec import Json, leaves
from benchorch.domain.session import Session
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError
from benchorch.executors.scheduling.import_folders import import_folders
from benchorch.files import check_inside, write_bytes

MAX_BACK_BYTES = 256 * 2**20
"""Limit for the files that a trial sends back; the largest are left out first."""

LARGE_BYTES = 2**20
"""Larger files do not pass through the coordinator where nodes can upload them."""

MAX_THERE_BYTES = 2 * 2**30
"""Limit for the files that a sweep ships to each node."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FolderContent:
    """Files of a folder.

    Attributes:
        files: content by name, relative to the folder, with forward slashes.
        left_out: names of files that were too large.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def large_files(folder: Path) -> list[str]:
    """Names of a folder's regular files that a node uploads by itself where it can."""
    return sorted(name for name, size in _regular_files(folder) if size > LARGE_BYTES)


def read_folder(
    folder: Path, most_bytes: int = MAX_BACK_BYTES, without: Collection[str] = ()
) -> FolderContent:
    """A folder's regular files, the smallest first, up to a total size; links are left out."""
    sizes = sorted((size, name) for name, size in _regular_files(folder) if name not in without)
    files: dict[str, bytes] = {}
    left_out: list[str] = []
    for size, name in sizes:
        if size > most_bytes:
            left_out.append(name)
            continue
        most_bytes -= size
        files[name] = (folder / name).read_bytes()
    return FolderContent(files=files, left_out=tuple(left_out))


def write_folder(content: FolderContent, folder: Path) -> None:
    """Write files into a folder, each atomically; ValueError for a name that leads out of it."""
    root = folder.resolve()
    for name in content.files:
        check_inside(name, root)
    for name, data in content.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.parent.resolve().is_relative_to(root) or path.is_symlink():
            raise ValueError(f"{name!r} leads out of {folder} by a link")
        write_bytes(path, data)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedFiles:
    """Files sent to a node without access to the run's directory.

    Attributes:
        directory: the run's, as in every path of a trial's specification.
        probe: the name of an empty file in it; a node where it exists shares the directory.
        working_directory: that relative paths start from, with the user's modules.
        content: files by their absolute path without its leading slash.
    """

    directory: Path
    probe: str
    working_directory: Path | None = None
    content: FolderContent = field(default_factory=FolderContent)

    def is_visible(self) -> bool:
        """Whether this machine shares the run's directory."""
        return (self.directory / self.probe).is_file()

    def write(self) -> None:
        """Write the files to their paths; FileExistsError for one that exists and differs."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.working_directory is not None:
            self.working_directory.mkdir(parents=True, exist_ok=True)
        missing = {}
        for name, data in self.content.files.items():
            path = Path("/") / name
            if not path.exists():
                missing[name] = data
            elif path.read_bytes() != data:
                raise FileExistsError(f"{path} on this node differs from the shipped file")
        write_folder(FolderContent(files=missing), Path("/"))


def collect_files(session: Session, trials: Sequence[Trial], probe: str = "") -> ShippedFiles:
    """The files that the trials name, and the user's modules that those import.

    ConfigError if they are too large to ship.
    """
    base = Path(session.search_path[0]) if session.search_path else Path.cwd()
    paths = {path for trial in trials for path in _named(trial.spec, base)}
    modules = {path for path in paths if path.suffix == ".py"}
    paths |= _imported(modules, base)
    size = sum(path.stat().st_size for path in paths)
    if size > MAX_THERE_BYTES:
        largest = max(paths, key=lambda path: path.stat().st_size)
        raise ConfigError(
            [
                f"The files that this sweep names are {size / 2**30:.1f} GiB, more than the "
                f"{MAX_THERE_BYTES / 2**30:.0f} GiB that are shipped to a node; the largest is "
                f"{largest}. Put it on a file system that the nodes share."
            ]
        )
    try:
        files = {path.as_posix().lstrip("/"): path.read_bytes() for path in sorted(paths)}
    except OSError as error:
        raise ConfigError(
            [f"{error.filename} is named by the sweep but cannot be read: {error.strerror}."]
        ) from error
    return ShippedFiles(
        directory=session.directory,
        probe=probe,
        working_directory=base,
        content=FolderContent(files=files),
    )


def script_files(script: Path) -> FolderContent:
    """A script and the user's modules that it imports, as `ShippedFiles` names them."""
    paths = {script, *_imported({script}, script.parent)}
    files = {path.as_posix().lstrip("/"): path.read_bytes() for path in sorted(paths)}
    return FolderContent(files=files)


def _named(value: Json, base: Path) -> Iterator[Path]:
    """Every regular file that a string names: by its path, folder, module or callable."""
    for _, text in leaves(value):
        if isinstance(text, str) and _may_name_a_file(text):
            yield from _at(base / text.partition(":")[0], base)
            yield from _at(base / text, base)
            yield from _module(text.partition(":")[0].split(".")[0], base)


def _may_name_a_file(value: str) -> bool:
    """Not a plain word, such as a name or a dtype, nor one of our own classes."""
    plain = not any(sign in value for sign in "/.:")
    return not plain and "\0" not in value and not value.startswith("benchorch.")


def _at(path: Path, base: Path) -> Iterator[Path]:
    """The file, or the files of a folder; never all of the working directory."""
    path = Path(os.path.normpath(path))
    mode = _mode(path)
    if stat.S_ISREG(mode):
        yield path
    elif stat.S_ISDIR(mode) and path != base and path not in base.parents:
        yield from _files_and_links(path)


def _module(name: str, base: Path) -> Iterator[Path]:
    """The files of a module or package of the user's."""
    if not name.isidentifier():
        return
    if (base / f"{name}.py").is_file():
        yield base / f"{name}.py"
    elif (base / name / "__init__.py").is_file():
        yield from (path for path in _files_and_links(base / name) if path.suffix == ".py")


def _imported(files: set[Path], base: Path) -> set[Path]:
    """The user's own modules that these files import, and what those import.

    A folder that one of them adds to ``sys.path`` is there for all.
    """
    found, folders, names = set(files), {base}, set[str]()
    waiting = set(files)
    while waiting:
        for file in waiting:
            tree = _parsed(file)
            names |= set(_imports(tree))
            folders |= {file.parent, *import_folders(tree, file)}
            if any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree)):
                package = _package(file)
                folders.add(package.parent)
                names.add(package.name)
        reached = {path for name in names for root in folders for path in _module(name, root)}
        waiting = reached - found
        found |= waiting
    return found - files


def _parsed(file: Path) -> ast.Module:
    """Its syntax; empty where it is no Python."""
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def _imports(tree: ast.Module) -> Iterator[str]:
    """First names of what a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _package(file: Path) -> Path:
    """The outermost package that a file is in; its folder where it is in none."""
    folder = file.parent
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _files_and_links(folder: Path) -> Iterator[Path]:
    """A folder's regular files and its links to such, as a snapshot of the Hub consists of."""
    for directory, _, names in os.walk(folder):
        paths = (Path(directory) / name for name in names)
        yield from (path for path in paths if stat.S_ISREG(_mode(path)))


def _mode(path: Path) -> int:
    """The type of what a path leads to; 0 where it leads nowhere, as most texts do."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _regular_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Names relative to a folder, and sizes in bytes; links are not followed."""
    for directory, _, names in os.walk(folder):
        for name in names:
            path = Path(directory) / name
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield path.relative_to(folder).as_posix(), status.st_size
