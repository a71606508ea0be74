"""Tables of a page that can be sorted: each cell has its number beside what a person reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchorch.trace.findings import EntityRow, WindowFindings
from benchorch.trace.report.context import tables
from benchorch.trace.report.markup import element, escaped, shortened
from benchorch.trace.report.table import HEADER, row_texts

MOST_ROWS = 60

KINDS = {
    "operators": "operator",
    "modules": "module",
    "kernels": "kernel",
    "graph nodes": "operator",
}
"""Tables whose rows can be asked a what-if about, and what the form calls them."""

MEANING = {
    "×": "how often it ran",
    "total": "its own time, summed",
    "on path": "of it, on the critical path; of the whole",
    "drag": "by how much the whole would be shorter if it took no time",
    "blame": "how long other lanes waited for it",
    "2× faster": "the whole, were it twice as fast",
    "free": "the whole, if it took no time",
    "bound": "Amdahl's limit by its time on the path",
    "roofline": "attained of what this machine allows",
    "limited by": "which side of the roofline",
}


def table_section(findings: WindowFindings) -> str:
    """All tables, one above the other until a script shows one at a time."""
    listed = tables(findings)
    if not listed:
        return ""
    tabs = [
        element("button", {"type": "button", "data-table": name, "aria-selected": "false"}, name)
        for name in listed
    ]
    shown = [_table(name, rows, findings.makespan_ns) for name, rows in listed.items()]
    return element("div", {"class": "tabs"}, *tabs) + "".join(shown)


def _table(name: str, rows: Sequence[EntityRow], makespan_ns: int) -> str:
    texts = [row_texts(row, makespan_ns) for row in rows[:MOST_ROWS]]
    columns = [column for column in HEADER if any(text[column] for text in texts)]
    heads = [_head(column) for column in columns]
    lines = [
        _line(name, row, text, columns) for row, text in zip(rows[:MOST_ROWS], texts, strict=True)
    ]
    table = element(
        "table",
        {},
        element("thead", {}, element("tr", {}, *heads, element("th", {}, " "))),
        element("tbody", {}, *lines),
    )
    rest = len(rows) - MOST_ROWS
    more = element("p", {"class": "small"}, f"{rest} more in table.csv") if rest > 0 else ""
    return element("div", {"class": "scroll rows", "data-table": name}, table, more)


def _head(column: str) -> str:
    sort = {"aria-sort": "descending"} if column == "drag" else {}
    button = element("button", {"type": "button", "title": MEANING.get(column)}, escaped(column))
    return element("th", {"scope": "col", **sort}, button)


def _line(table: str, row: EntityRow, texts: Mapping[str, str], columns: Sequence[str]) -> str:
    numbers = _numbers(row)
    cells = [
        element(
            "td",
            {"data-value": numbers[column], "title": row.name if column == "name" else None},
            escaped(shortened(texts[column], 90)) or " ",
        )
        for column in columns
    ]
    ask = {"type": "button", "class": "try", "data-kind": KINDS.get(table), "data-value": row.name}
    button = element("button", ask, "what if?") if table in KINDS else " "
    return element("tr", {}, *cells, element("td", {}, button))


def _numbers(row: EntityRow) -> Mapping[str, object]:
    """What a column is sorted by; what is not known comes last."""
    return {
        "name": row.name,
        "×": row.count,
        "total": row.total_ns,
        "on path": row.on_path_ns,
        "drag": row.drag_ns,
        "blame": row.blame_ns,
        "2× faster": repr(row.speedup_2x),
        "free": _finite(row.speedup_max),
        "bound": _finite(row.bound_path),
        "roofline": -1 if row.efficiency_ratio is None else repr(row.efficiency_ratio),
        "limited by": row.bound,
    }


def _finite(ratio: float) -> str:
    """As JavaScript reads it."""
    return "Infinity" if ratio == float("inf") else repr(ratio)
