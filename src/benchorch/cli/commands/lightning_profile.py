"""The report of a Lightning Trainer's profiler in our tables, for ``benchorch analyze``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from benchorch.domain.reply import Reply
from benchorch.units import format_seconds

if TYPE_CHECKING:
    from benchorch.domain.codec import Json
    from benchorch.frameworks.lightning_report import LightningReport, TimedAction

_ROWS_SHOWN = 15
_LONGEST_NAME = 80


def lightning_reply(reports: Sequence[LightningReport]) -> Reply:
    """Each report as a table; every row of it for programs."""
    text = "\n\n".join(_text(report) for report in reports)
    return Reply(text=text, data=cast("Json", {"lightning": [asdict(each) for each in reports]}))


def _text(report: LightningReport) -> str:
    from benchorch.results.report.console_table import table_text

    shown = report.rows[:_ROWS_SHOWN]
    header = ("action", "calls", "mean", "total", "itself", "of the run")
    columns = [_row(row, report.wall_s) for row in shown]
    kept = [at for at in range(len(header)) if any(row[at] for row in columns)] or [0]
    rows = [[row[at] for at in kept] for row in (header, *columns)]
    return "\n".join([_title(report), "", table_text(rows), *_further(report)])


def _title(report: LightningReport) -> str:
    stage = f" of {report.stage}" if report.stage else ""
    took = f", {format_seconds(report.wall_s)} in all" if report.wall_s is not None else ""
    return f"Lightning's {report.profiler} profiler{stage}{took}"


def _further(report: LightningReport) -> Iterator[str]:
    more = len(report.rows) - _ROWS_SHOWN
    if more > 0:
        yield f"and {more} more; --json has all of them"
    if not report.rows:
        yield "it holds no rows: the run was cut short, or nothing was profiled"


def _row(row: TimedAction, wall_s: float | None) -> tuple[str, ...]:
    name = f"{row.within} > {row.name}" if row.within else row.name
    return (
        name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…",
        "" if row.calls is None else f"{row.calls:,}",
        format_seconds(row.total_s / row.calls) if row.calls else "",
        format_seconds(row.total_s),
        "" if row.self_s is None else format_seconds(row.self_s),
        f"{row.total_s / wall_s:.1%}" if wall_s else "",
    )
