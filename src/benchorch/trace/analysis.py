"""Analysis of a trace file: events, graph, critical path and findings of one window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from benchorch.errors import TraceError
from benchorch.trace.attribution.findings import findings
from benchorch.trace.critical_path.path import critical_path
from benchorch.trace.dag import CriticalPath, Dag, Window
from benchorch.trace.events import Events
from benchorch.trace.findings import WindowFindings
from benchorch.trace.graph.build import build_dag
from benchorch.trace.iterations import iterations, typical
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trace.operators.provenance import Provenance
from benchorch.trace.operators.roofline import Peaks
from benchorch.trace.readers.open import read_events
from benchorch.trace.windows import windows


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Of one window of a trace.

    Attributes:
        events: of the whole trace.
        dag, path: of the window.
        findings: of the window; its iterations are all windows of the same range.
        graph: of the model, where one is known.
    """

    events: Events
    dag: Dag
    path: CriticalPath
    findings: WindowFindings
    graph: OperatorGraph | None


def analyze(
    trace: Path,
    *,
    range_name: str | None = None,
    iteration: int | None = None,
    graph: OperatorGraph | None = None,
    peaks: Peaks | None = None,
    dilation_ratio: float | None = None,
    provenance: Sequence[Provenance] = (),
) -> Analysis:
    """Analyse the call that stands for all calls of a trace.

    Args:
        trace: a profile of PyTorch, ONNX Runtime or Nsight Systems.
        range_name: the range that marks a call; None for the one that profilers usually write.
        iteration: which call, from 0; None for that of median length.
        graph: of the model, whose nodes the trace's events belong to.
        peaks: of the device, for rooflines.
        dilation_ratio: profiled over unprofiled latency.
        provenance: of each compiled graph, in the order in which they were compiled.

    Raises:
        TraceError: the file is no trace, has no such range or call, or the analysis of it
            contradicts itself, which is an error of benchorch's.
    """
    events = read_events(trace)
    found = windows(events, range_name)
    numbered = {window.iteration: window for window in found}
    if iteration is not None and iteration not in numbered:
        raise TraceError(
            f"{trace}: there is no call {iteration}; {found[0].name!r} has 0 to {len(found) - 1}."
        )
    chosen = typical(found) if iteration is None else numbered[iteration]
    dag, path = _path_of(events, chosen, graph)
    result = findings(
        events,
        dag,
        path,
        graph=graph,
        peaks=peaks,
        dilation_ratio=dilation_ratio,
        provenance=provenance,
    )
    broken = [name for name, holds in result.invariants.items() if not holds]
    if broken:
        raise TraceError(
            f"{trace}: internal error: the analysis contradicts itself ({', '.join(broken)}), so "
            "there is no result. Please report it with the trace."
        )
    compared = iterations(
        events,
        found,
        lambda window: (dag, path) if window is chosen else _path_of(events, window, graph),
    )
    result = replace(
        result, iterations=compared.makespans_ns, stability_ratio=compared.stability_ratio
    )
    return Analysis(events=events, dag=dag, path=path, findings=result, graph=graph)


def _path_of(
    events: Events, window: Window, graph: OperatorGraph | None
) -> tuple[Dag, CriticalPath]:
    dag = build_dag(events, window, graph)
    return dag, critical_path(dag)
