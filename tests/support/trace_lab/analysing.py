"""Analysis of a run as a user would get it: written to a file, read, and built."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchorch.trace.analysis import window_of
from benchorch.trace.critical_path.path import critical_path
from benchorch.trace.dag import CriticalPath, Dag, Window
from benchorch.trace.events import Events
from benchorch.trace.graph.build import build_dag
from benchorch.trace.graph.scope import Thresholds
from benchorch.trace.readers.open import read_events
from benchorch.trace.steps import find_steps
from support.trace_lab.kineto import Recording, write
from support.trace_lab.program import Program
from support.trace_lab.simulator import Run, simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysed:
    """Events, graph and critical path of a trace."""

    events: Events
    dag: Dag
    path: CriticalPath


def analysed(
    program: Program,
    place: Path,
    recording: Recording | None = None,
    thresholds: Thresholds | None = None,
) -> tuple[Run, Analysed]:
    """A program's run, and the analysis of its marked range or of all of it; by way of a file."""
    run = simulate(program)
    events = read_events(write(run, place / "trace.json", recording))
    window = marked(events) if program.marker else None
    dag = build_dag(events, window, thresholds=thresholds)
    return run, Analysed(events=events, dag=dag, path=critical_path(dag))


def marked(events: Events) -> Window:
    """The one range that a simulated program marks, alone."""
    steps = find_steps(events)
    whole = window_of(events, steps)
    return Window(
        start_ns=int(steps.start_ns[0]),
        end_ns=whole.end_ns,
        host_end_ns=whole.host_end_ns,
        lane=whole.lane,
    )
