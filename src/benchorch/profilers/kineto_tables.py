"""PyTorch's tables of operators by time and memory, as text and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.formatting import csv_of
from benchorch.profilers.ranges import PREFIXES

if TYPE_CHECKING:
    from torch.profiler import profile

ROWS = 20

# Each column and torch's name for it.
_COLUMNS = {
    "calls": "count",
    "self_cpu_us": "self_cpu_time_total",
    "cpu_us": "cpu_time_total",
    "self_device_us": "self_device_time_total",
    "device_us": "device_time_total",
    "self_cpu_memory_bytes": "self_cpu_memory_usage",
    "self_device_memory_bytes": "self_device_memory_usage",
}
_ORDERS = ("self_cpu_us", "self_device_us", "self_cpu_memory_bytes", "self_device_memory_bytes")

Row = dict[str, str | float]


def write(profiler: profile, directory: Path) -> tuple[Path, ...]:
    """A table for each order with values above 0, as ``.txt`` and ``.csv``."""
    return write_rows(rows_of(profiler.key_averages()), directory)


def write_rows(rows: Sequence[Row], directory: Path) -> tuple[Path, ...]:
    """The same from rows: text for the greatest of them, CSV for all."""
    written = []
    for order in _ORDERS:
        ranked = sorted(rows, key=lambda row: -abs(float(row[order])))
        if not any(row[order] for row in ranked):
            continue
        plain = [{key: _plain(value) for key, value in row.items()} for row in ranked]
        for suffix, text in (("txt", _text(ranked, order)), ("csv", csv_of(plain))):
            path = directory / f"operators_by_{order.rpartition('_')[0]}.{suffix}"
            path.write_text(text, encoding="utf-8")
            written.append(path)
    return tuple(written)


def rows_of(averages: Iterable[object]) -> list[Row]:
    """One row per operator or kernel.

    benchorch's ranges are omitted: their time belongs to operators.
    """
    return [
        {
            "operator": name,
            **{column: float(getattr(each, of, 0.0)) for column, of in _COLUMNS.items()},
            "kind": _kind(each),
        }
        for each in averages
        if not (name := str(each.key)).startswith(PREFIXES)  # type: ignore[attr-defined]
    ]


def _kind(average: object) -> str:
    """``kernel``, or copy, on a device; ``range`` for a marked span there; else ``operator``."""
    device = getattr(average, "device_type", None)
    if device is None or device.name == "CPU":
        return "operator"
    return "range" if getattr(average, "is_user_annotation", False) else "kernel"


def _text(rows: Sequence[Row], order: str) -> str:
    """The first rows, each with its share of what all of them have of what orders them.

    torch gives an operator the device time of its kernels, which have rows too: that of kernels
    alone is summed.
    """
    summed = [row for row in rows if order != "self_device_us" or row["kind"] == "kernel"]
    total = sum(abs(float(row[order])) for row in summed) or 1.0
    cells = [["operator", "share", *_COLUMNS]]
    cells += [
        [
            str(row["operator"]),
            f"{abs(float(row[order])) / total:.1%}",
            *(_plain(row[column]) for column in _COLUMNS),
        ]
        for row in rows[:ROWS]
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return "".join(
        f"{name.ljust(widths[0])}  {'  '.join(map(str.rjust, values, widths[1:]))}\n"
        for name, *values in cells
    )


def _plain(value: str | float) -> str:
    """A number without a tail of zeros."""
    return value if isinstance(value, str) else f"{value:.3f}".rstrip("0").rstrip(".")
