"""Recorders: where results go once they are on disk."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Plan, Trial


class Recorder(ABC):
    """Copies a run's journal to a tracker; may be interrupted and repeated at any time."""

    @property
    @abstractmethod
    def address(self) -> Mapping[str, str]:
        """The tracker, without secrets: ``uri``, ``experiment``; empty if nothing is recorded.

        What was recorded at one address is still to be recorded at another.
        """

    @property
    def ids(self) -> Mapping[str, str]:
        """Ids besides the parent run's own that its links need; empty without any."""
        return {}

    @abstractmethod
    def open(self, plan: Plan, directory: Path) -> str:
        """Make or find the parent run; returns its id; RecordError if the tracker is down."""

    @abstractmethod
    def record(self, trial: Trial, result: TrialResult, summary: Summary, directory: Path) -> str:
        """Record one trial as a child run; returns its id; RecordError if the tracker is down.

        Args:
            summary: while other trials are still to come, without the comparison.
            directory: the trial's, whose files become artifacts.
        """

    def amend(self, trial: Trial, result: TrialResult, summary: Summary, directory: Path) -> str:
        """Replace a recorded trial's figures by those of the whole table; returns its id.

        Its files have not changed since `record`, which is called again where this is not defined.
        """
        return self.record(trial, result, summary, directory)

    @abstractmethod
    def close(self, plan: Plan, directory: Path, *, complete: bool) -> None:
        """Upload the parent run's artifacts and end it; RecordError if the tracker is down.

        Args:
            plan: the whole one, which a sweeper may have extended since `open`.
            directory: the run's, whose files become artifacts.
        """
