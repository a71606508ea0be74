"""What whatever reads an analysis may ask of it, whoever made it."""

from __future__ import annotations

from typing import Protocol

from benchorch.trace.dag import CriticalPath, Dag
from benchorch.trace.events import Events
from benchorch.trace.findings import WindowFindings
from benchorch.trace.operators.graph import OperatorGraph


class Replayable(Protocol):
    """An analysed window of a trace, before anything is said of it."""

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
    """The same with what is said of it."""

    @property
    def findings(self) -> WindowFindings:
        """What is said of it."""
