"""Jinja2 templates of pages that are one file: every name is escaped, nothing else is loaded."""

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from benchorch.pages.markup import json_in_script, plain, shortened

_HERE = Path(__file__).parent
STYLE = (_HERE / "page.css").read_text(encoding="utf-8")
MOST_BYTES = 2_900_000
"""Size limit of a page: further parts are replaced by a note on where they are."""


@cache
def templates(folder: Path) -> Environment:
    """The templates of a folder, which may extend `page.html.j2` and import `parts.html.j2`."""
    found = Environment(
        loader=FileSystemLoader([folder, _HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else plain(value),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["shortened"] = shortened
    found.filters["digest"] = _digest
    found.filters["json"] = lambda value: Markup(json_in_script(value))
    return found


def _digest(text: str) -> str:
    """The hash by which a content security policy allows a script or a style sheet."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def size_of(*texts: str) -> int:
    """Bytes of texts in a file."""
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


class SizeBudget:
    """Bytes that parts of a page may still take, and the number of parts left out."""

    def __init__(self, size_bytes: int) -> None:
        self.left_bytes = size_bytes
        self.left_out = 0

    def take(self, part: Markup) -> Markup:
        """The part, or nothing from the first on that does not fit."""
        if self.left_out or size_of(part) > self.left_bytes:
            self.left_out += 1
            return Markup()
        self.left_bytes -= size_of(part)
        return part
