"""The tables as Markdown for people and CSV for programs."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence

from benchorch.pages.markup import plain, shortened
from benchorch.trace.findings import EntityRow, WindowFindings
from benchorch.trace.report.context import duration, percent, share, tables, times
from benchorch.trace.report.summary import TOP_ROWS, as_mapping

HEADER = (
    *("name", "×", "total", "on path", "drag", "blame", "2× faster", "free", "bound"),
    *("roofline", "limited by"),
)


def markdown(findings: WindowFindings) -> str:
    """The verdict, then the first rows of every table, the greatest drag first."""
    parts = [f"**{_cell(findings.diagnosis.sentence)}**"]
    parts += [f"> {_cell(warning)}" for warning in findings.warnings]
    for name, rows in tables(findings).items():
        parts.append(f"## {name[0].upper()}{name[1:]}")
        lines = [HEADER, ["---"] + ["---:"] * 9 + ["---"], *_lines(findings, rows[:TOP_ROWS])]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts) + "\n"


def comma_separated(findings: WindowFindings) -> str:
    """All rows of all tables, times in whole nanoseconds, one header."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    head = False
    for name, rows in tables(findings).items():
        for row in rows:
            values = {key: value for key, value in as_mapping(row).items() if key != "events"}
            if not head:
                writer.writerow(["table", *values])
                head = True
            writer.writerow([name, *(_spreadsheet(value) for value in values.values())])
    return written.getvalue()


def row_texts(row: EntityRow, makespan_ns: int) -> Mapping[str, str]:
    """A row's cells for people, by column."""
    return {
        "name": row.name,
        "×": str(row.count),
        "total": duration(row.total_ns),
        "on path": f"{duration(row.on_path_ns)} ({percent(share(row.on_path_ns, makespan_ns))})",
        "drag": f"{duration(row.drag_ns)} ({percent(share(row.drag_ns, makespan_ns))})",
        "blame": duration(row.blame_ns) if row.blame_ns else "",
        "2× faster": times(row.speedup_2x),
        "free": times(row.speedup_max),
        "bound": times(row.bound_path),
        "roofline": "" if row.efficiency_ratio is None else percent(row.efficiency_ratio),
        "limited by": row.bound,
    }


def _lines(findings: WindowFindings, rows: Sequence[EntityRow]) -> list[Sequence[str]]:
    found = [row_texts(row, findings.makespan_ns) for row in rows]
    return [[_cell(texts[column]) for column in HEADER] for texts in found]


def _cell(text: str) -> str:
    """One line that is no markup."""
    return re.sub(r"([\\|`*_<>\[\]])", r"\\\1", shortened(text, 400))


def _spreadsheet(value: object) -> object:
    """A value that no spreadsheet takes for a formula."""
    if not isinstance(value, str):
        return value
    text = plain(value)
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text
