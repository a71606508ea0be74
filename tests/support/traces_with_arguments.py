"""Traces by hand whose events have arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from benchorch.trace.attribution.findings import findings
from benchorch.trace.critical_path.path import critical_path
from benchorch.trace.dag import CriticalPath, Dag, Window
from benchorch.trace.events import Events
from benchorch.trace.findings import WindowFindings
from benchorch.trace.graph.build import build_dag


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Arguments of some events by index."""

    arguments: Mapping[int, Mapping[str, object]]

    def read(self, indices: Sequence[int]) -> Mapping[int, Mapping[str, object]]:
        """As a reader of files would give them."""
        return {index: self.arguments.get(index, {}) for index in indices}


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysed:
    """What is said of one window."""

    events: Events
    dag: Dag
    path: CriticalPath
    findings: WindowFindings


def told(events: Events, arguments: Mapping[int, Mapping[str, object]]) -> Events:
    """The same events with arguments."""
    return replace(events, details=Told(arguments=arguments))


def operands(*shapes: Sequence[int], dtype: str = "float") -> dict[str, object]:
    """An operator's arguments, as PyTorch's profiler records them."""
    return {"Input Dims": [list(one) for one in shapes], "Input type": [dtype] * len(shapes)}


def analysed(events: Events, window: Window | None = None, **options: object) -> Analysed:
    """A trace's graph, path and findings; the options are those of `findings`."""
    dag = build_dag(events, window)
    path = critical_path(dag)
    found = findings(events, dag, path, **options)
    return Analysed(events=events, dag=dag, path=path, findings=found)


def analysed_file(path: Path, **options: object) -> Analysed:
    """The same of a file: its typical call."""
    from benchorch.trace.iterations import typical
    from benchorch.trace.readers.open import read_events
    from benchorch.trace.windows import windows

    events = read_events(path)
    return analysed(events, typical(windows(events)), **options)
