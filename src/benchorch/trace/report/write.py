"""The files of an analysis, for people and for other programs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from benchorch.errors import StoreError
from benchorch.pages.charts import standalone
from benchorch.pages.markup import json_text
from benchorch.trace.analysed import Analysed
from benchorch.trace.critical_path.slack import slack
from benchorch.trace.report.ancestry import Ancestry, ancestry
from benchorch.trace.report.context import SCHEMA_VERSION
from benchorch.trace.report.graph_times import GraphTimes, graph_times
from benchorch.trace.report.icicle import CHANGED_TITLE, TITLE, icicle, icicle_change
from benchorch.trace.report.model_explorer import edge_overlays, node_data, viewer_graph
from benchorch.trace.report.page import page
from benchorch.trace.report.path_segments import path_columns, path_segments
from benchorch.trace.report.perfetto import write_perfetto
from benchorch.trace.report.summary import summary
from benchorch.trace.report.table import comma_separated, markdown
from benchorch.trace.report.whatif_form import whatif_form
from benchorch.trace.whatif.basis import Basis, prepare
from benchorch.trace.whatif.predict import Answer
from benchorch.trace.whatif.prediction import to_json
from benchorch.trace.whatif.simulation import path_of


def write(
    analysis: Analysed,
    directory: Path,
    *,
    stem: str = "",
    basis: Basis | None = None,
    whatifs: Sequence[Answer] = (),
) -> tuple[Path, ...]:
    """Write all files; returns their paths in order, last the index, which lists them.

    Args:
        analysis: of one window.
        directory: made if there is none; files of the same name are replaced.
        stem: begins every file's name, for several windows in one directory.
        basis: the result of `prepare`, if there is one already.
        whatifs: predictions from it.

    Raises:
        StoreError: the directory cannot be written to.
    """
    folder = _Folder(directory=directory, stem=f"{stem}." if stem else "")
    try:
        _write(analysis, folder, basis or prepare(analysis), whatifs)
        folder.text("index.json", json_text(_index(analysis, folder)))
    except OSError as error:
        raise StoreError(f"{directory}: the analysis cannot be written there: {error}") from error
    return tuple(folder.written)


def _write(analysis: Analysed, folder: _Folder, basis: Basis, whatifs: Sequence[Answer]) -> None:
    above = ancestry(analysis.events, basis.owned)
    along = path_segments(analysis, above)
    folder.text("summary.json", json_text(summary(analysis)))
    folder.text("path.json", json_text(path_columns(analysis, along)))
    folder.text("table.md", markdown(analysis.findings))
    folder.text("table.csv", comma_separated(analysis.findings))
    spare_ns = slack(analysis.dag)
    command = _model_explorer(analysis, folder, graph_times(analysis, above))
    drawn = icicle(above.stack_times(analysis.path))
    folder.text("icicle.svg", standalone(drawn, TITLE))
    write_perfetto(analysis, along, above, spare_ns, folder.path("perfetto.json.gz"))
    _whatifs(basis, folder, above, whatifs)
    form = whatif_form(basis, above, spare_ns)
    folder.text("report.html", page(analysis, form, drawn, command))


def _model_explorer(analysis: Analysed, folder: _Folder, times: GraphTimes) -> str:
    """Write the graph with its overlays; returns the command that shows it."""
    name = f"model_explorer/{_file_name(times.graph.name)}"
    metrics = node_data(times, analysis.findings.makespan_ns)
    for metric, data in metrics.items():
        folder.text(f"{name}.{metric}.json", json_text(data))
    folder.text(f"{name}.edges.json", json_text(edge_overlays(times)))
    folder.text(f"{name}.json", json_text(viewer_graph(times)))
    start = f"model_explorer/{folder.stem}{_file_name(times.graph.name)}"
    overlay = f" --node_data_paths {start}.drag.json" if "drag" in metrics else ""
    return f"model-explorer {start}.json{overlay}"


def _whatifs(basis: Basis, folder: _Folder, above: Ancestry, whatifs: Sequence[Answer]) -> None:
    """Each prediction, and the icicle of its path."""
    names = _file_names([one.prediction.name for one in whatifs])
    for number, (name, one) in enumerate(zip(names, whatifs, strict=True)):
        folder.text(f"whatif/{name}.json", to_json(one.prediction))
        path = path_of(basis, one.hypothesis)
        drawn = icicle_change(above.stack_times(basis.path), above.stack_times(path))
        suffix = f"_{number + 1}" if number else ""
        folder.text(f"icicle_whatif{suffix}.svg", standalone(drawn, CHANGED_TITLE))


def _index(analysis: Analysed, folder: _Folder) -> dict[str, object]:
    findings = analysis.findings
    return {
        "schema_version": SCHEMA_VERSION,
        "tiers": dict(findings.tiers),
        "dilation_ratio": findings.dilation_ratio,
        "invariants": dict(findings.invariants),
        "warnings": list(findings.warnings),
        "files": [
            {
                "path": path.relative_to(folder.directory).as_posix(),
                "bytes": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for path in folder.written
        ],
    }


def _file_names(names: Sequence[str]) -> list[str]:
    """File names, no two the same: from the second on they are numbered."""
    found: list[str] = []
    for name in map(_file_name, names):
        numbered, number = name, 1
        while numbered.casefold() in map(str.casefold, found):
            number += 1
            numbered = f"{name}_{number}"
        found.append(numbered)
    return found


def _file_name(name: str) -> str:
    """A name that a file may have anywhere."""
    return re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).strip(".")[:80] or "graph"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """The directory, and the files written to it."""

    directory: Path
    stem: str
    written: list[Path] = field(default_factory=list)

    def path(self, name: str) -> Path:
        """The path of a file, which counts as written."""
        path = self.directory / name
        path = path.with_name(self.stem + path.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written.append(path)
        return path

    def text(self, name: str, content: str) -> None:
        """Write a file."""
        self.path(name).write_text(content, encoding="utf-8", newline="\n")
