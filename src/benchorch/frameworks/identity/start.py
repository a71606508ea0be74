"""A process before it loads a model: where that looks for files, and names that hold elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchorch.files import home


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A process before it loaded the model, which may change all of this.

    Attributes:
        code: the folder of the file that the model is named by; empty where no file is named.
        environment: variables.
        folder: the current one.
        path: folders that modules are imported from.
    """

    code: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    folder: str = field(default_factory=lambda: str(Path.cwd()))
    path: Sequence[str] = field(default_factory=lambda: tuple(sys.path))

    def folders(self) -> Iterator[tuple[str, str]]:
        """Signs that stand for folders in portable names, the code's first."""
        if self.code:
            yield "<code>", self.code
        yield "<folder>", self.folder
        yield from (("<path>", one.rstrip("/")) for one in self.path if one.startswith("/"))
        if (own := home()) is not None:
            yield "~", str(own)

    def portable(self, file: str) -> str:
        """A name that leads to the same file where a project, or a home, is elsewhere."""
        for sign, folder in self.folders() if file.startswith("/") else ():
            if file == folder or file.startswith(f"{folder}/"):
                return f"{sign}{file.removeprefix(folder)}"
        return file

    def place(self, name: str) -> Path:
        """The file of a portable name; in the first of the import path's folders that has it."""
        sign, _, rest = name.partition("/")
        places = [Path(folder, rest) for one, folder in self.folders() if one == sign]
        return next(filter(Path.exists, places), places[0]) if places else Path(self.folder, name)
