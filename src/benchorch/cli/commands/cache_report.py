"""``cache report``: a row for every build, for a spreadsheet or a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchorch.cli.commands.cache_explain import SHORT_KEY, flatten
from benchorch.domain.codec import Json
from benchorch.domain.trial import ConfigNode
from benchorch.formatting import aligned
from benchorch.interfaces.store import Entry
from benchorch.results.report.console_table import WIDTH, terminal_width
from benchorch.results.report.rich_table import fitting
from benchorch.units import format_bytes, format_seconds

NOTHING = "Nothing was built yet."
_PACKAGES = "packages."
_LONGEST_ERROR = 60


def row(entry: Entry) -> dict[str, Json]:
    """A build's columns: first those that all builds have, then every field of its key."""
    common: dict[str, Json] = {
        "name": entry.name,
        "state": entry.state,
        "key": entry.artifact.key,
        "steps": _steps(entry.fields),
        "size_bytes": entry.artifact.size_bytes,
        "build_s": entry.artifact.build_s,
        "created_at": entry.created_at,
        "error": entry.detail,
    }
    return common | {k: v for k, v in flatten(entry.fields).items() if k not in common}


def _steps(fields: ConfigNode) -> str:
    """The chain in class names: ``ExportOnnx+Optimise``."""
    steps = fields.get("steps")
    nodes = steps if isinstance(steps, Sequence) and not isinstance(steps, str) else []
    targets = [str(node.get("_target_", "?")) for node in nodes if isinstance(node, Mapping)]
    return "+".join(target.rpartition(".")[2] for target in targets)


def as_text(rows: Sequence[Mapping[str, Json]]) -> str:
    """The columns that fit on a screen."""
    if not rows:
        return NOTHING
    header = ("key", "state", "size", "build", "steps", "versions", "name", "error")
    return table([header, *map(_cells, rows)])


def _cells(row: Mapping[str, Json]) -> tuple[str, ...]:
    packages = [name for name in row if name.startswith(_PACKAGES)]
    versions = ", ".join(f"{name.removeprefix(_PACKAGES)} {row[name]}" for name in packages)
    error = " ".join(str(row["error"]).split())
    return (
        str(row["key"])[:SHORT_KEY],
        str(row["state"]),
        size(row["size_bytes"]),
        duration(row["build_s"]),
        str(row["steps"]) or "-",
        versions or "-",
        str(row["name"]),
        error if len(error) <= _LONGEST_ERROR else f"{error[: _LONGEST_ERROR - 3]}...",
    )


def size(value: Json) -> str:
    """A size for people."""
    return format_bytes(value) if isinstance(value, int) else "-"


def duration(value: Json) -> str:
    """A duration for people; an unfinished build has none."""
    return format_seconds(value) if isinstance(value, int | float) and value > 0 else "-"


def table(rows: Sequence[Sequence[str]]) -> str:
    """A header and its rows, of as many columns as the terminal is wide; without rich."""
    width = terminal_width()
    kept, dropped = fitting(rows, width) if width < WIDTH else (range(len(rows[0])), [])
    text = aligned([[row[at] for at in kept] for row in rows])
    return f"{text}\nleft out at this width: {', '.join(dropped)}" if dropped else text
