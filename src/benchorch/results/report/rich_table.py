"""A table as rich draws it, of as many columns as the width allows."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchorch.formatting import bounded

if TYPE_CHECKING:
    from rich.table import Table

DROPPED_FIRST = (
    *("peak memory", "build", "items/s [95 %]", "p99 ms [95 %]", "limited by", "ran in"),
    *("USD per 1M [95 %]", "greedy tokens; KL nats", "USD per 1M tokens out", "tokens/s out"),
    "same model?",  # what is not is disqualified in the last column
    *("error", "versions", "created (UTC)", "where"),
    *("directory", "left", "failed", "measured", "A [95 %]", "B [95 %]"),
    *("candidate", "baseline", "limit"),
    *("shapes", "sizes", "workload", "hardware"),
    *("processes", "now"),
)
"""Columns in the order in which a narrow terminal goes without them."""

_JUDGES = "same model?"
_PER_TOKEN = "TPOT ms [95 %]"

_GAP = 3
_FOLDED = 20  # characters to which a cell folds before a reader goes without "same model?"


def rich_table(rows: Sequence[Sequence[str]], width: int) -> Table:
    """A header and its rows, the first column to the left and all others to the right.

    Columns are left out until the rest fits, and named below the table; what is still too wide is
    folded between words.

    Args:
        rows: plain text, whose brackets are no markup.
        width: characters of a line.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    rows = [[bounded(one) for one in row] for row in rows]
    kept, dropped = fitting(rows, width)
    head, *body = [[row[at] for at in kept] for row in rows]
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    if dropped:
        table.caption = escape(f"left out at this width: {', '.join(dropped)}")
        table.caption_justify = "left"
    for index, title in enumerate(head):
        longest = max(len(word) for row in (head, *body) for word in (row[index].split() or [""]))
        table.add_column(
            escape(title), justify="left" if index == 0 else "right", min_width=longest
        )
    for row in body:
        table.add_row(*map(escape, row))
    return table


def fitting(rows: Sequence[Sequence[str]], width: int) -> tuple[list[int], list[str]]:
    """The columns that fit into a width, and the titles of the others."""
    head = rows[0]
    widths = [max(_cells(row[at]) for row in rows) for at in range(len(head))]
    kept = list(range(len(head)))
    dropped = []
    for title in _in_order(head):
        if title == _JUDGES and title in head:
            widths = [min(own, max(_FOLDED, len(head[at]))) for at, own in enumerate(widths)]
        if sum(widths[at] + _GAP for at in kept) <= width:
            break
        found = [at for at in kept[1:] if head[at] == title]
        kept = [at for at in kept if at not in found]
        dropped += [title] if found else []
    return kept, dropped


def _in_order(head: Sequence[str]) -> Sequence[str]:
    """`DROPPED_FIRST`; a table with times of tokens rather goes without those of whole calls."""
    if _PER_TOKEN not in head:
        return DROPPED_FIRST
    at = DROPPED_FIRST.index(_JUDGES)
    return (*DROPPED_FIRST[:at], "p50 ms [95 %]", *DROPPED_FIRST[at:], "TTFT ms [95 %]")


def _cells(text: str) -> int:
    """Columns of a terminal; characters of East Asian scripts take two."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)
