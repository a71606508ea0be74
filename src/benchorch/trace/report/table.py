"""The tables as Markdown for people and CSV for programs."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchorch.pages.markup import plain, shortened
from benchorch.trace.findings import EntityRow, Findings
from benchorch.trace.report.summary import TOP_ROWS
from benchorch.trace.report.text import duration, percent

HEADER = ("name", "×", "total", "on path", "if free", "shapes")


def markdown(findings: Findings) -> str:
    """The verdict, then the first rows of every table; times are of one period."""
    verdict = findings.verdict
    parts = [f"**{_cell(verdict.sentence)}**"]
    parts += [f"> {_cell(one)}" for one in (*findings.warnings, *verdict.record)]
    for name, rows in findings.tables.items():
        parts.append(f"## {name[0].upper()}{name[1:]}")
        lines = [HEADER, ["---"] + ["---:"] * 4 + ["---"], *_lines(findings, rows[:TOP_ROWS])]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts) + "\n"


def comma_separated(findings: Findings) -> str:
    """All rows of all tables, times in whole nanoseconds, one header."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    head = False
    for name, rows in findings.tables.items():
        for row in rows:
            values = {key: value for key, value in asdict(row).items() if key != "events"}
            if not head:
                writer.writerow(["table", *values])
                head = True
            writer.writerow([name, *(_spreadsheet(value) for value in values.values())])
    return written.getvalue()


def row_texts(row: EntityRow, period_ns: int) -> Mapping[str, str]:
    """A row's cells for people, by column."""
    share = row.on_path_ns / period_ns if period_ns else 0.0
    gain = None if row.gain_ns is None or not period_ns else row.gain_ns / period_ns
    return {
        "name": row.name,
        "×": f"{row.count:g}" if row.count == round(row.count) else f"{row.count:.1f}",
        "total": duration(row.total_ns),
        "on path": f"{duration(row.on_path_ns)} ({percent(share)})",
        "if free": "" if gain is None else f"-{percent(max(gain, 0.0))}",
        "shapes": row.shapes,
    }


def _lines(findings: Findings, rows: Sequence[EntityRow]) -> list[Sequence[str]]:
    found = [row_texts(row, findings.period_ns) for row in rows]
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
