"""A table as rich draws it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def rich_table(rows: Sequence[Sequence[str]]) -> Table:
    """A header and its rows, the first column to the left and all others to the right."""
    from rich import box
    from rich.table import Table

    head, *body = rows
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for index, title in enumerate(head):
        table.add_column(title, justify="left" if index == 0 else "right", overflow="fold")
    for row in body:
        table.add_row(*row)
    return table
