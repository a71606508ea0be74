"""Cells as a table of HTML."""

from collections.abc import Sequence
from html import escape


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """The table, its first row as the header; nothing of a cell is markup."""
    head, *body = ([escape(cell) for cell in row] for row in rows)
    lines = ["<table><thead><tr>", *(f"<th>{cell}</th>" for cell in head), "</tr></thead><tbody>"]
    lines += [f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in body]
    return "".join([*lines, "</tbody></table>"])
