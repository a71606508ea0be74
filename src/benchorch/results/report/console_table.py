"""Tables and reports as text, as wide as the terminal; of one width where there is none."""

from __future__ import annotations

import io
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from benchorch.results.report.rich_table import rich_table

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 160
"""Of what is written to a file or a pipe."""


def terminal_width() -> int:
    """Columns of the terminal, or those that the environment names."""
    return shutil.get_terminal_size((WIDTH, 0)).columns


def paper() -> tuple[Console, io.StringIO]:
    """A console that writes to memory, and that memory."""
    from rich.console import Console

    written = io.StringIO()
    # In a notebook rich would show it there and then, and write nothing.
    width = terminal_width()
    console = Console(
        file=written,
        width=width,
        color_system=None,
        emoji=False,  # "model.py:m:" is a name
        force_jupyter=False,
        soft_wrap=width >= WIDTH,  # no terminal, or one that is wide enough
    )
    return console, written


def table_text(rows: Sequence[Sequence[str]]) -> str:
    """A header and its rows as a table; brackets are no markup."""
    console, written = paper()
    console.print(rich_table(rows, console.width))
    return tidy(written.getvalue())


def folded(sentences: Iterable[str]) -> Iterator[str]:
    """Sentences as wide as the terminal; whole where there is none."""
    width = terminal_width()
    for text in sentences:
        if width < WIDTH:
            text = textwrap.fill(
                text,
                width,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        yield text


def tidy(text: str) -> str:
    """Text without trailing spaces, and without more than one empty line in a row."""
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n")
