"""Where results go once they are safe on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Plan, Trial


class Recorder(ABC):
    """Copies a run's journal to a tracker; may be interrupted and run again at any time."""

    @property
    @abstractmethod
    def address(self) -> Mapping[str, str]:
        """Where it records, without secrets: ``uri``, ``experiment``; empty where nothing is kept.

        What was recorded at one address is still missing at another.
        """

    @abstractmethod
    def open(self, plan: Plan, directory: Path) -> str:
        """Make or find the parent run; returns its id; RecordError if the tracker is away."""

    @abstractmethod
    def record(self, trial: Trial, result: TrialResult, summary: Summary, directory: Path) -> str:
        """One trial as a child run; returns its id; RecordError if the tracker is away.

        Args:
            directory: the trial's own, whose files become artifacts.
        """

    @abstractmethod
    def close(self, directory: Path, *, complete: bool) -> None:
        """The parent's artifacts and its end; RecordError if the tracker is away."""
