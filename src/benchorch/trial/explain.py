"""Critical path of a profiled call, from its trace alone.

It runs in a process of its own when nothing is measured any more, and never imports torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.domain.codec import decode
from benchorch.domain.profile import OPERATORS_FILE, BottleneckVerdict
from benchorch.files import read_json
from benchorch.trace.operators.graph import OperatorGraph

if TYPE_CHECKING:
    from benchorch.trace.analysis import Analysis

FOLDER = "critical_path"


def analyse(trace: Path, *, dilation_ratio: float | None) -> Analysis:
    """Critical path of the trace's calls, with the operator graph stored beside it."""
    from benchorch.trace.analysis import analyze
    from benchorch.trace.operators.provenance import beside

    graph = _graph_beside(trace)
    return analyze(
        trace,
        graph=graph,
        dilation_ratio=dilation_ratio,
        provenance=beside(trace, {node.name for node in graph.nodes} if graph else ()),
    )


def bottleneck_of(analysis: Analysis) -> BottleneckVerdict:
    """Bottleneck in an analysis, for the trial's result."""
    found = analysis.verdict
    return BottleneckVerdict(
        limit=found.limit,
        sentence=found.sentence,
        advice=found.advice,
        largest=found.largest,
        largest_gain_ratio=found.largest_gain_ratio,
        critical_path_ns=analysis.path.length_ns,
        classes_ns={str(name): int(spent) for name, spent in analysis.classes.items()},
    )


def draw(analysis: Analysis, folder: Path) -> None:
    """Tables, pictures and pages in a folder of the trial's own."""
    from benchorch.trace.report.write import write

    write(analysis, folder / FOLDER)


def _graph_beside(trace: Path) -> OperatorGraph | None:
    path = trace.with_name(OPERATORS_FILE)
    return decode(OperatorGraph, read_json(path)) if path.exists() else None
