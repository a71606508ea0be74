"""The findings as text: one JSON file, tables as Markdown for people and as CSV for programs."""

import re
from collections.abc import Mapping
from dataclasses import asdict

from benchorch.formatting import csv_of
from benchorch.pages.markup import plain, shortened
from benchorch.trace.analysis import Analysis
from benchorch.trace.attribution.tables import EntityRow
from benchorch.units import NS_PER_MS, NS_PER_S, NS_PER_US

SCHEMA_VERSION = 2  # of JSON files; raised when an older reader could misread them
TOP_ROWS = 50
HEADER = ("name", "×", "total", "on path", "if free", "shapes")


def duration(length_ns: float) -> str:
    """For people, with three digits: ``4.05 µs``, ``12.3 ms``."""
    size = abs(length_ns)
    for unit_ns, unit in ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs")):
        if size >= unit_ns:
            return f"{length_ns / unit_ns:.{2 if size < 10 * unit_ns else 1}f} {unit}"
    return f"{length_ns:.0f} ns"


def percent(ratio: float) -> str:
    """For people; what is there but small is not nothing."""
    if 0 < ratio < 0.001:
        return "<0.1 %"
    if ratio == 0:
        return "0 %"
    return f"{100 * ratio:.1f} %" if abs(ratio) < 0.0995 else f"{100 * ratio:.0f} %"


def summary(analysis: Analysis) -> dict[str, object]:
    """Plain values, the most important first; times are whole nanoseconds."""
    steps, (begin_ns, end_ns) = analysis.steps, analysis.periods.interval_ns
    plain_values = ("matched_ratio", "dilation_ratio", "classes", "warnings", "repairs")
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": asdict(analysis.verdict),
        "period_ns": steps.period_ns,
        "makespan_ns": end_ns - begin_ns,
        "path_ns": analysis.path.length_ns,
        **{name: getattr(analysis, name) for name in plain_values},
        "facts": analysis.dag.facts,
        "steps": {
            "name": steps.name,
            "marked": len(steps.start_ns),
            "first": steps.first,
            "count": len(steps),
            "shown": list(steps.shown),
            "back_to_back": steps.back_to_back,
            "periods_ns": steps.periods_ns.tolist(),
        },
        "devices": [
            {**asdict(one), "utilisation_ratio": one.utilisation_ratio} for one in analysis.devices
        ],
        "tables": {
            name: [asdict(row) for row in (*rows[:-1][:TOP_ROWS], rows[-1])]
            for name, rows in analysis.tables.items()
        },
        "branches": [asdict(branch) for branch in analysis.branches],
        "graph": None if analysis.graph is None else analysis.graph.name,
    }


def markdown(analysis: Analysis) -> str:
    """The verdict, then the first rows of every table; times are of one period."""
    verdict = analysis.verdict
    parts = [f"**{_cell(verdict.sentence)}**"]
    parts += [f"> {_cell(one)}" for one in (*analysis.warnings, *verdict.record)]
    for name, rows in analysis.tables.items():
        parts.append(f"## {name[0].upper()}{name[1:]}")
        texts = [row_texts(row, analysis.steps.period_ns) for row in rows[:TOP_ROWS]]
        lines = [HEADER, ["---"] + ["---:"] * 4 + ["---"]]
        lines += [[_cell(text[column]) for column in HEADER] for text in texts]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts) + "\n"


def comma_separated(analysis: Analysis) -> str:
    """All rows of all tables, times in whole nanoseconds, one header."""
    records = [
        {"table": name}
        | {key: plain(v) if isinstance(v, str) else v for key, v in asdict(row).items()}
        for name, rows in analysis.tables.items()
        for row in rows
    ]
    for one in records:
        del one["events"]
    return csv_of(records) if records else ""


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


def _cell(text: str) -> str:
    return re.sub(r"([\\|`*_<>\[\]])", r"\\\1", shortened(text, 400))
