"""One row for every build, for a spreadsheet or a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from benchorch.cli.commands.cache_explain import SHORT_KEY, flatten
from benchorch.domain.codec import Json
from benchorch.domain.trial import ConfigNode
from benchorch.interfaces.store import Entry
from benchorch.units import format_bytes, format_seconds

NOTHING = "Nothing was built yet."
_PACKAGES = "packages."
_LONGEST_ERROR = 60


def rows(entries: Sequence[Entry]) -> list[dict[str, Json]]:
    """What is known of each build: first the same columns for all, then every field it has."""
    return [_row(entry) for entry in entries]


def _row(entry: Entry) -> dict[str, Json]:
    known: dict[str, Json] = {
        "name": entry.name,
        "state": entry.state,
        "key": entry.artifact.key,
        "steps": _steps(entry.fields),
        "size_bytes": entry.artifact.size_bytes,
        "build_s": entry.artifact.build_s,
        "created_at": entry.created_at,
        "error": entry.detail,
    }
    fields = flatten(entry.fields)
    return {**known, **{name: value for name, value in fields.items() if name not in known}}


def _steps(fields: ConfigNode) -> str:
    """The chain in class names: ``ExportOnnx+Optimise``."""
    steps = fields.get("steps")
    nodes = steps if isinstance(steps, Sequence) and not isinstance(steps, str) else []
    targets = [str(node.get("_target_", "?")) for node in nodes if isinstance(node, Mapping)]
    return "+".join(target.rpartition(".")[2] for target in targets)


def as_csv(table: Sequence[Mapping[str, Json]]) -> str:
    """All rows under the union of their columns; what a build does not have is empty."""
    columns = list(dict.fromkeys(name for row in table for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return buffer.getvalue()


def as_text(table: Sequence[Mapping[str, Json]]) -> str:
    """The columns that fit on a screen."""
    if not table:
        return NOTHING
    header = ("KEY", "STATE", "SIZE", "BUILD", "STEPS", "VERSIONS", "NAME", "ERROR")
    return aligned([header, *(_cells(row) for row in table)])


def _cells(row: Mapping[str, Json]) -> tuple[str, ...]:
    versions = [
        f"{name.removeprefix(_PACKAGES)} {version}"
        for name, version in row.items()
        if name.startswith(_PACKAGES)
    ]
    error = " ".join(str(row["error"]).split())
    return (
        str(row["key"])[:SHORT_KEY],
        str(row["state"]),
        size(row["size_bytes"]),
        duration(row["build_s"]),
        str(row["steps"]) or "-",
        ", ".join(versions) or "-",
        str(row["name"]),
        error if len(error) <= _LONGEST_ERROR else f"{error[: _LONGEST_ERROR - 3]}...",
    )


def size(value: Json) -> str:
    """A size for people."""
    return format_bytes(value) if isinstance(value, int) else "-"


def duration(value: Json) -> str:
    """A duration for people; a build that never ended has none."""
    return format_seconds(value) if isinstance(value, int | float) and value > 0 else "-"


def aligned(table: Sequence[Sequence[str]]) -> str:
    """Rows with their columns below each other, two spaces apart."""
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in table
    ]
    return "\n".join(line.rstrip() for line in lines)
