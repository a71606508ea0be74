"""No tracker: results stay in the journal on disk."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.interfaces.recorder import Recorder


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Nowhere(Recorder):
    """Records nothing."""

    @property
    def address(self) -> Mapping[str, str]:
        """Empty: nothing is recorded."""
        return {}

    def open(self, plan: Plan, directory: Path) -> str:
        """No parent run."""
        return ""

    def record(self, trial: Trial, result: TrialResult, summary: Summary, directory: Path) -> str:
        """No child run."""
        return ""

    def close(self, plan: Plan, directory: Path, *, complete: bool) -> None:
        """No operation: there is nothing to close."""
