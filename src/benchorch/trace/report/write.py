"""The files of an analysis, for people and for other programs."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchorch.errors import StoreError
from benchorch.files import file_digest, write_bytes, write_text
from benchorch.pages.markup import json_text
from benchorch.trace.analysis import Analysis
from benchorch.trace.attribution.tables import EntityRow
from benchorch.trace.causes import CAUSES, Known
from benchorch.trace.dag import CLASSES, NOBODY
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trace.report.graphviz import pictures
from benchorch.trace.report.model_explorer import edge_overlays, node_data, viewer_graph
from benchorch.trace.report.page import page
from benchorch.trace.report.perfetto import perfetto
from benchorch.trace.report.table import SCHEMA_VERSION, comma_separated, markdown, summary
from benchorch.trace.whatif.predict import Prediction


def write(
    analysis: Analysis, directory: Path, *, predictions: Sequence[Prediction] = ()
) -> tuple[Path, ...]:
    """Write all files; returns their paths in order, last the index, which lists them."""
    folder = _Folder(directory=directory)
    try:
        _write(analysis, folder, predictions)
        folder.text("index.json", json_text(_index(analysis, folder)))
    except OSError as error:
        raise StoreError(f"{directory}: the analysis cannot be written there: {error}") from error
    return tuple(folder.written)


def _write(analysis: Analysis, folder: _Folder, predictions: Sequence[Prediction]) -> None:
    folder.text("summary.json", json_text(summary(analysis)))
    folder.text("path.json", json_text(_path(analysis)))
    folder.text("table.md", markdown(analysis))
    folder.text("table.csv", comma_separated(analysis))
    graph = analysis.graph
    command = ""
    if graph is not None and analysis.matched_ratio:  # nothing is drawn where no node has a time
        nodes = analysis.tables.get("graph nodes", ())[:-1]
        command = _drawn(graph, nodes, analysis.steps.period_ns, folder)
    trace = perfetto(analysis)
    write_bytes(folder.path("perfetto.json.gz"), trace)
    names = file_names([one.name for one in predictions])
    for name, one in zip(names, predictions, strict=True):
        folder.text(f"whatif/{name}.json", json_text(one.as_mapping()))
        if graph is not None and one.nodes:
            _drawn(graph, one.nodes, one.predicted_ns, folder, f".whatif.{name}")
    folder.text("report.html", page(analysis, trace, command))


def _path(analysis: Analysis) -> dict[str, object]:
    """The path as columns of equal length; names are indices into a table."""
    path, why, events = analysis.path, analysis.reasons, analysis.events
    owned = path.owner != NOBODY
    code = np.where(owned, events.name[path.owner], NOBODY)
    known, column = np.unique(code, return_inverse=True)
    return {
        "schema_version": SCHEMA_VERSION,
        "makespan_ns": path.length_ns,
        "classes": [label.value for label in CLASSES],
        "causes": [cause.value for cause in CAUSES],
        "known": [one.name.lower() for one in Known],
        "names": ["" if one == NOBODY else events.names[one] for one in known.tolist()],
        "segments": {
            "start_ns": _listed(path.start_ns),
            "duration_ns": _listed(path.duration_ns),
            "class": _listed(path.label),
            "cause": _listed(why.cause),
            "length_known": _listed(why.length),
            "cause_known": _listed(why.certainty),
            "event": _listed(path.owner),
            "name": _listed(column),
        },
    }


def _listed(column: NDArray[Any]) -> msgspec.Raw:
    """A column as JSON; as numbers of Python, all of them at once would take ten times as much."""
    return msgspec.Raw(msgspec.json.encode(column.tolist()))


def _drawn(
    graph: OperatorGraph,
    nodes: Sequence[EntityRow],
    period_ns: int,
    folder: _Folder,
    which: str = "",
) -> str:
    """Write the model's graph, with overlays and as pictures; returns the command that shows it."""
    rows = {row.name: row for row in nodes}
    name = f"model_explorer/{file_name(graph.name)}{which}"
    for picture, text in pictures(graph, rows, period_ns).items():
        folder.text(f"graphviz/{picture}{which}.dot", text)
    for metric, data in node_data(graph, rows, period_ns).items():
        folder.text(f"{name}.{metric}.json", json_text(data))
    folder.text(f"{name}.edges.json", json_text(edge_overlays(graph, rows)))
    folder.text(f"{name}.json", json_text(viewer_graph(graph, rows)))
    return f"model-explorer {name}.json --node_data_paths {name}.critical_share.json"


def _index(analysis: Analysis, folder: _Folder) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "dilation_ratio": analysis.dilation_ratio,
        "warnings": list(analysis.warnings),
        "files": [
            {
                "path": path.relative_to(folder.directory).as_posix(),
                "bytes": path.stat().st_size,
                "sha256": file_digest(path),
            }
            for path in folder.written
        ],
    }


def file_names(names: Sequence[str]) -> list[str]:
    """File names, no two the same: from the second on they are numbered."""
    found: list[str] = []
    for name in map(file_name, names):
        numbered, number = name, 1
        while numbered.casefold() in map(str.casefold, found):
            number += 1
            numbered = f"{name}_{number}"
        found.append(numbered)
    return found


def file_name(name: str) -> str:
    """A name that a file may have anywhere."""
    return re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).strip(".")[:80] or "graph"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    directory: Path
    written: list[Path] = field(default_factory=list)

    def path(self, name: str) -> Path:
        """The path of a file, which counts as written.

        Raises:
            OSError: its folder below this one is a link, as a stranger's folder may hold one.
        """
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent != self.directory and path.parent.is_symlink():
            raise OSError(errno.ELOOP, "it is a link to another folder", str(path.parent))
        self.written.append(path)
        return path

    def text(self, name: str, content: str) -> None:
        """Write a file in place of what has that name, be it a link."""
        write_text(self.path(name), content)
