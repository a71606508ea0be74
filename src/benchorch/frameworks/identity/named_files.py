"""Files that a user's code names: by one text, by texts and folders together, by a pattern."""

from __future__ import annotations

import ast
import glob
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import CodeType
from typing import Any

from benchorch.frameworks.identity.code import is_written, nested, parsed
from benchorch.frameworks.identity.indirect import ANY, text_of

_FILE = re.compile(r"[\w./~ -]*[./][\w./~ -]+")
_NAME = re.compile(r"[^\x00-\x1f*?]{1,200}")
_SUFFIX = re.compile(r"\.\w{1,20}")
_FIXED = re.compile(r"\w{2}")
_HOME = frozenset({"home", "expanduser"})
_DEEPEST = 4
_HIGHEST = 3
_MOST_FOLDERS = 100
_MOST_FILES = 1000


@dataclass(slots=True)
class NamedFiles:
    """Texts of the user's code that may name files, and where to look for those.

    Attributes:
        texts: that may name files or folders, with those written only left out.
        patterns: of names that code puts together, with ``*`` for what it computes.
        places: folders to look in: the current one, the code's and those above it.
        folders: that values of the model name.
    """

    texts: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    places: dict[Path, None] = field(default_factory=dict)
    folders: set[Path] = field(default_factory=set)

    def add(self, code: CodeType, texts: Iterable[str], scope: Mapping[str, Any]) -> None:
        """Take note of what one code object names."""
        given = [text for text in texts if _NAME.fullmatch(text)]
        suffixes = [text for text in given if _SUFFIX.fullmatch(text)]
        stems = [text for text in given if "with_suffix" in code.co_names and text not in suffixes]
        if "__file__" in code.co_names:
            stems.append(Path(code.co_filename).name)
        given += [str(Path(stem).with_suffix(end)) for stem in stems for end in suffixes]
        self.texts.update(given)
        self.patterns.update(_patterns(code, scope))
        self.places.setdefault(Path.cwd())
        self.places.update(dict.fromkeys(_above(Path(code.co_filename).parent)))
        if _HOME.intersection(code.co_names):
            self.places.setdefault(Path.home())

    def found(self) -> dict[str, Path]:
        """Each file that is there, by a name without the place."""
        found = {
            f"{label}{text}": folder / text
            for folder, label in self._folders().items()
            for text in self.texts
            if (folder / text).is_file()
        }
        for folder, label in self._folders().items():
            for pattern in self.patterns:
                escaped = ANY.join(map(glob.escape, pattern.split(ANY)))
                matching = islice(folder.glob(escaped), _MOST_FILES)
                files = {f"{label}{path.relative_to(folder).as_posix()}": path for path in matching}
                found.update((name, path) for name, path in files.items() if path.is_file())
        return found

    def candidates(self) -> Iterator[str]:
        """Texts that may name files, whether or not they exist."""
        yield from (text for text in self.texts if _FILE.fullmatch(text))
        for folder, label in self._folders().items():
            if label:
                yield from (f"{folder}/{text}" for text in self.texts if _FILE.fullmatch(text))

    def _folders(self) -> dict[Path, str]:
        """Folders that texts lead to from the places, with their names from there."""
        found = {**dict.fromkeys(self.places, ""), **{one: f"{one.name}/" for one in self.folders}}
        layer = dict(found)
        for _ in range(_DEEPEST):
            layer = {
                folder / text: f"{label}{text}/"
                for folder, label in layer.items()
                for text in self.texts
                if text.strip("./") and (folder / text).is_dir()
            }
            layer = {folder: label for folder, label in layer.items() if folder not in found}
            found.update(islice(layer.items(), _MOST_FOLDERS))
        return found


def _above(folder: Path) -> Iterator[Path]:
    """A folder and some above it, down from the current one where it is below that."""
    here = Path.cwd()
    for each in [folder, *folder.parents][:_HIGHEST]:
        yield each
        if each == here:
            return


def _patterns(code: CodeType, scope: Mapping[str, Any]) -> Iterator[str]:
    """Names that code puts together of texts and of what it computes."""
    tree = parsed(code)
    if tree is None:
        return
    written = {id(node) for call in ast.walk(tree) for node in is_written(call)}
    inner = {name for part in nested(code) for name in (*part.co_varnames, *part.co_cellvars)}
    known = {name: value for name, value in scope.items() if name not in inner}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.BinOp | ast.Call) and id(node) not in written:
            pattern = re.sub(r"\*+", ANY, text_of(node, known))
            if ANY in pattern and _is_name(pattern):
                yield pattern


def _is_name(pattern: str) -> bool:
    """Whether it may be a file's: relative, with a suffix or a folder that is spelled out."""
    fixed = _FIXED.search(pattern.replace(ANY, " ")) is not None
    folder, inside, _ = pattern.partition("/")
    named = bool(folder.strip(ANY)) if inside else re.search(r"\.\w+$", pattern) is not None
    plain = _NAME.fullmatch(pattern.replace(ANY, "x")) is not None
    return fixed and named and plain and pattern[0] != "/" and ".." not in pattern
