"""Interfaces of an analysed window, for whatever reads one."""

from __future__ import annotations

from typing import Protocol

from benchorch.trace.dag import CriticalPath, Dag
from benchorch.trace.events import Events
from benchorch.trace.findings import WindowFindings
from benchorch.trace.operators.graph import OperatorGraph


class Replayable(Protocol):
    """A window of a trace with its graph and critical path, before the findings."""

    @property
    def events(self) -> Events:
        """Of the whole trace."""

    @property
    def dag(self) -> Dag:
        """The dependency graph of the window."""

    @property
    def path(self) -> CriticalPath:
        """Its critical path."""

    @property
    def graph(self) -> OperatorGraph | None:
        """The model's own graph, where one is known."""


class Analysed(Replayable, Protocol):
    """The same with its findings."""

    @property
    def findings(self) -> WindowFindings:
        """Of the window."""
