"""Tables and reports as text, as wide as the terminal; with every column where there is none."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

from benchorch.results.report.rich_table import rich_table

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 160
"""Columns from which text that no terminal shows is not folded."""

EVERY_COLUMN = 1000
"""Width of a file and of a pipe: more than any table has."""

# What a folded line goes on below: a number, or a label that is set off by spaces.
_LABEL = re.compile(r" *(?:\d+\. |\S+(?: \S+){0,2} {2,})(?=\S)")
# A command after at most one label: whoever copies it needs it in one line.
_TYPED = re.compile(r" *(?:\w+:? +)?(?:python -m |\.venv/bin/)?(?:benchorch|cd|mv|pip|make) ")


def columns_of(stream: IO[str]) -> int:
    """Columns that the environment names, or of a terminal; 0 where there is none."""
    with contextlib.suppress(OSError, ValueError):  # a file, or a text in memory
        named = shutil.get_terminal_size((0, 0)).columns
        return named or os.get_terminal_size(stream.fileno()).columns
    return 0


def terminal_width() -> int:
    """Columns that the environment names, or of the terminal, else `EVERY_COLUMN`."""
    return columns_of(sys.stdout) or EVERY_COLUMN


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


def folded(text: str, stream: IO[str]) -> str:
    """Text whose longer lines are folded between words for a terminal; commands stay whole."""
    width = columns_of(stream)
    if not width or (width >= WIDTH and not stream.isatty()):
        return text
    return "\n".join(fold_line(line, width) for line in text.split("\n"))


def fold_line(line: str, width: int) -> str:
    """A line folded between words to a width, unless it is a command or coloured."""
    if len(line) <= width or "\x1b" in line or _TYPED.match(line):
        return line
    label = _LABEL.match(line)
    hanging = label.end() if label else 0
    if not 0 < hanging <= width // 2:
        hanging = len(line) - len(line.lstrip()) + 2
    return textwrap.fill(
        line, width, subsequent_indent=" " * hanging, break_long_words=False, break_on_hyphens=False
    )


def tidy(text: str) -> str:
    """Text without trailing spaces, and without more than one empty line in a row."""
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n")
