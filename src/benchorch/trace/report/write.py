"""Every file that an analysis leaves for people and for other programs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from benchorch.errors import StoreError
from benchorch.trace.analysed import Analysed
from benchorch.trace.critical_path.slack import slack
from benchorch.trace.operators.grouping import by_module, by_pattern
from benchorch.trace.report.ancestry import Ancestry, ancestry
from benchorch.trace.report.context import SCHEMA_VERSION
from benchorch.trace.report.graph_cards import full_picture, grouped_picture
from benchorch.trace.report.graph_times import GraphTimes, graph_times, grouped_times
from benchorch.trace.report.icicle import icicle, icicle_change
from benchorch.trace.report.markup import json_text
from benchorch.trace.report.model_explorer import edge_overlays, node_data, own_graph
from benchorch.trace.report.page import Picture, report
from benchorch.trace.report.path_intervals import path_columns, stretches
from benchorch.trace.report.perfetto import write_perfetto
from benchorch.trace.report.summary import summary
from benchorch.trace.report.svg import alone
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
    """Write all of it and say where, in the order written; the index, which lists it, is last.

    Args:
        analysis: of one window.
        directory: made if there is none; files of the same name are replaced.
        stem: begins every file's name, for several windows in one directory.
        basis: what `prepare` made of the analysis, if somebody had it do so already.
        whatifs: predictions from it to write beside it.

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
    along = stretches(analysis, above)
    folder.text("summary.json", json_text(summary(analysis)))
    folder.text("path.json", json_text(path_columns(analysis, along)))
    folder.text("table.md", markdown(analysis.findings))
    folder.text("table.csv", comma_separated(analysis.findings))
    spare_ns = slack(analysis.dag)
    measured = graph_times(analysis, above, spare_ns)
    _model_explorer(analysis, folder, measured)
    pictures = _pictures(analysis, measured, above)
    for name, (_, _, picture) in pictures.items():
        folder.text(name, alone(picture))
    write_perfetto(analysis, along, above, spare_ns, folder.path("perfetto.json.gz"))
    _whatifs(basis, folder, above, whatifs)
    folder.text("report.html", report(analysis, whatif_form(basis, above, spare_ns), pictures))


def _model_explorer(analysis: Analysed, folder: _Folder, measured: GraphTimes) -> None:
    start = f"model_explorer/{_file_name(measured.graph.name)}"
    for metric, data in node_data(measured, analysis.findings.makespan_ns).items():
        folder.text(f"{start}.{metric}.json", json_text(data))
    folder.text(f"{start}.edges.json", json_text(edge_overlays(measured)))
    if analysis.graph is None:
        folder.text(f"{start}.json", json_text(own_graph(measured)))


def _pictures(analysis: Analysed, measured: GraphTimes, above: Ancestry) -> dict[str, Picture]:
    """By file, the most telling first."""
    findings = analysis.findings
    modules = any(node.module for node in measured.graph.nodes)
    groups = by_pattern(measured.graph)
    folded = by_module(measured.graph) if modules else groups
    found = {
        "icicle.svg": (
            "Where the critical path is",
            "Modules above operators above kernels; the wider, the more of the path. Rest on a "
            "piece for its times.",
            icicle(above.pieces(analysis.path)),
        ),
        "graph.svg": (
            "Modules" if modules else "Operators",
            "The greener, the less time the whole would take without it; dark red is the path.",
            grouped_picture("Graph", grouped_times(measured, folded), findings),
        ),
    }
    if analysis.graph is not None:
        found["graph_grouped.svg"] = (
            "Operators in groups that kernels often do at once",
            "Percentages where ways join say what share of all busy time each of them took.",
            grouped_picture("Groups", grouped_times(measured, groups), findings),
        )
        found["graph_full.svg"] = (
            "Every operator and its tensors",
            "The model's graph as its file has it.",
            full_picture(measured, findings),
        )
    return found


def _whatifs(basis: Basis, folder: _Folder, above: Ancestry, whatifs: Sequence[Answer]) -> None:
    """A prediction each, and a picture of the path that it leads to."""
    names = _file_names([one.prediction.name for one in whatifs])
    for number, (name, one) in enumerate(zip(names, whatifs, strict=True)):
        folder.text(f"whatif/{name}.json", to_json(one.prediction))
        path = path_of(basis, one.hypothesis)
        picture = icicle_change(above.pieces(basis.path), above.pieces(path))
        folder.text(f"icicle_whatif{f'_{number + 1}' if number else ''}.svg", alone(picture))


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
    """Of each name a file's, no two the same: from the second on they are numbered."""
    found: list[str] = []
    for name in map(_file_name, names):
        numbered, number = name, 1
        while numbered.casefold() in map(str.casefold, found):
            number += 1
            numbered = f"{name}_{number}"
        found.append(numbered)
    return found


def _file_name(name: str) -> str:
    """A name as a file may have it anywhere."""
    return re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).strip(".")[:80] or "graph"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """Where files go, and which have been written."""

    directory: Path
    stem: str
    written: list[Path] = field(default_factory=list)

    def path(self, name: str) -> Path:
        """Where a file of that name goes; it is taken to be written."""
        path = self.directory / name
        path = path.with_name(self.stem + path.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written.append(path)
        return path

    def text(self, name: str, content: str) -> None:
        """Write a file."""
        self.path(name).write_text(content, encoding="utf-8", newline="\n")
