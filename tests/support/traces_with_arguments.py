"""Traces by hand whose events have arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from benchorch.trace.analysis import Analysis
from benchorch.trace.attribution.findings import findings
from benchorch.trace.critical_path.path import critical_path
from benchorch.trace.dag import Window
from benchorch.trace.events import Events
from benchorch.trace.graph.build import build_dag
from benchorch.trace.iterations import typical
from benchorch.trace.readers.open import read_events
from benchorch.trace.windows import windows


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Arguments of some events by index."""

    arguments: Mapping[int, Mapping[str, object]]

    def read(self, indices: Sequence[int]) -> Mapping[int, Mapping[str, object]]:
        """As a reader of files would give them."""
        return {index: self.arguments.get(index, {}) for index in indices}


def told(events: Events, arguments: Mapping[int, Mapping[str, object]]) -> Events:
    """The same events with arguments."""
    return replace(events, details=Arguments(arguments=arguments))


def operands(*shapes: Sequence[int], dtype: str = "float") -> dict[str, object]:
    """An operator's arguments, as PyTorch's profiler records them."""
    return {"Input Dims": [list(one) for one in shapes], "Input type": [dtype] * len(shapes)}


def analysed(events: Events, window: Window | None = None, **options: object) -> Analysis:
    """A trace's graph, path and findings; the options are those of `findings`."""
    dag = build_dag(events, window)
    path = critical_path(dag)
    found = findings(events, dag, path, **options)
    graph = options.get("graph")
    return Analysis(events=events, dag=dag, path=path, findings=found, graph=graph)


def analysed_file(path: Path, **options: object) -> Analysis:
    """The same of a file: its typical call."""
    events = read_events(path)
    return analysed(events, typical(windows(events)), **options)
