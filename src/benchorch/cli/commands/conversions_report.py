"""Text report of the conversions by runtime, and of other tools' names."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchorch.domain.codec import Json
from benchorch.results.report.console_table import paper, terminal_width, tidy

if TYPE_CHECKING:
    from rich.table import Table

Row = Mapping[str, Json]

_WIDEST = 100


def overview(ours: Sequence[Row], others: int) -> str:
    """The conversions by family, the baseline's first; those that cannot run here apart."""
    families = [_family(title, rows) for title, rows in _families(ours).items()]
    more = f"{others} names of other tools select them too; --all lists those, and all reasons."
    return "\n".join([*families, "", _legend(ours), more])


def _family(title: str, rows: Sequence[Row]) -> str:
    here = [str(row["name"]) for row in rows if row["runs_here"]]
    away = [str(row["name"]) for row in rows if not row["runs_here"]]
    lines = [textwrap.shorten(title, _width(), placeholder=" ...")]
    for start, names in (("  ", here), ("  not here: ", away)):
        if names:
            text = start + "  ".join(names)
            lines += textwrap.wrap(
                text,
                _width(),
                subsequent_indent="    ",
                break_on_hyphens=False,
                break_long_words=False,
            )
    return "\n".join(lines)


def _width() -> int:
    return min(terminal_width(), _WIDEST)


def everything(ours: Sequence[Row], others: Mapping[str, Sequence[Row]]) -> str:
    """The same with other tools' names and what each selects."""
    names = [_names_table(f"{tool}'s names", rows) for tool, rows in others.items()]
    return f"{_drawn([*_ours(ours), *names])}\n\n{_legend(ours)}"


def _ours(rows: Sequence[Row]) -> list[Table]:
    return [_table(title, found) for title, found in _families(rows).items()]


def _families(rows: Sequence[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["name"] != "eager"):
        groups.setdefault(_group(row), []).append(row)
    return groups


def _drawn(tables: Sequence[Table]) -> str:
    console, written = paper()
    for table in tables:
        console.print(table)
    return tidy(written.getvalue())


def _legend(ours: Sequence[Row]) -> str:
    ready = sum(bool(row["runs_here"]) for row in ours)
    return (
        f"{ready} of {len(ours)} can run on this machine. Join names by +\n"
        "(conversion=bf16+aot_inductor): steps in that order, and the last runtime.\n"
        "One in detail, with what would enable it: benchorch conversions NAME"
    )


def _group(row: Row) -> str:
    runtime = cast("Row | None", row["runtime"])
    if runtime is None:
        return "Broken"
    return f"{str(runtime['target']).rpartition('.')[2]}: {runtime['does']}"


def _table(title: str, rows: Sequence[Row]) -> Table:
    table = _empty_table(title)
    for heading, width in (("CONVERSION", 36), ("WHAT IT IS", 58), ("KEEPS", 5), ("HERE", 50)):
        table.add_column(heading, width=width, overflow="fold")
    for row in rows:
        keeps = "✓" if row["leaves"] else ""
        table.add_row(*_plain(row["name"], row["description"], keeps, _here(row)))
    return table


def _names_table(title: str, rows: Sequence[Row]) -> Table:
    table = _empty_table(title)
    for heading, width in (("NAME", 62), ("SELECTS", 46), ("HERE", 46)):
        table.add_column(heading, width=width, overflow="fold")
    for row in rows:
        chain = "retired" if row["retired"] else row["chain"]
        table.add_row(*_plain(row["name"], chain, _here(row, retired=True)))
    return table


def _empty_table(title: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Text(title, style="bold")
    return Table(
        title=shown, title_justify="left", box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False
    )


def _plain(*cells: Json) -> Iterator[str]:
    from rich.markup import escape

    return (escape(str(cell)) for cell in cells)


def _here(row: Row, *, retired: bool = False) -> str:
    """``yes``, or why not and what would enable it."""
    if row["runs_here"]:
        return "yes" if row["hardware"] == "local" else f"yes: hardware={row['hardware']}"
    reason = str(row["reason"]).removeprefix("retired: ") if retired else str(row["reason"])
    return f"{reason} → {row['enable']}" if row["enable"] else reason


def detail(row: Row) -> str:
    """One conversion with its links, their files, and its availability on this machine."""
    lines = [str(row["name"]), "=" * len(str(row["name"]))]
    if row["retired"]:
        return "\n".join([*lines, _here(row)])
    lines.append(str(row["description"]))
    if row["parts"] != [row["name"]]:
        lines.append(f"selects     conversion={row['chain']}")
    lines.append(f"here        {_here(row)}")
    lines.append(
        f"keeps       {', '.join(_words(row['leaves'])) or 'nothing: made in each process'}"
    )
    lines.append(f"needs       {', '.join(_words(row['requires']))}")
    if row["file"]:
        lines.append(f"file        {_nearby(str(row['file']))}")
    lines += [f"PROBLEM     {problem}" for problem in _words(row["problems"])]
    for number, step in enumerate(cast("Sequence[Row]", row["steps"]), start=1):
        lines += ["", f"{number}. {step['name']}: {step['kind']}", *_link_lines(step)]
    runtime = cast("Row | None", row["runtime"])
    if runtime is not None:
        lines += ["", "then: runs it", *_link_lines(runtime)]
    return "\n".join([*lines, "", "more        docs/reference/conversions-table.md"])


def _link_lines(link: Row) -> list[str]:
    takes = " or ".join(_words(link["consumes"]))
    gives = f" → {link['produces']}" if link["produces"] else ""
    return [
        f"   {link['does']}",
        f"   {takes}{gives}; may cost a relative error of {link['tolerance_ratio']:.0e}",
        f"   {link['target']}",
        f"   {_nearby(str(link['file']))}",
    ]


def _words(value: Json) -> list[str]:
    return [str(each) for each in cast("Sequence[Json]", value)]


def _nearby(path: str) -> str:
    """A path relative to the current directory where it is below it."""
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path
