"""The page of a run that goes on: written anew between trials, seldom enough to cost nothing."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Plan

_LEAST_PAUSE_S = 10.0
_PAUSE_RATIO = 30.0
LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class LivePage:
    """The page in a run's folder.

    Attributes:
        due_s: the moment of the monotonic clock from which on it may be written again.
    """

    directory: Path
    due_s: float = 0.0

    def is_due(self) -> bool:
        """Whether the last one is old: ten seconds, and thirty times what writing it took."""
        return time.monotonic() >= self.due_s

    def write(
        self,
        plan: Plan,
        results: Mapping[str, TrialResult],
        summaries: Mapping[str, Summary],
        *,
        running: bool,
    ) -> None:
        """Write it; a page that cannot be written ends no run."""
        from benchorch.results.compare.load_run import Derived
        from benchorch.results.report.run_page import write_run_page

        start_s = time.monotonic()
        run = Derived(
            directory=self.directory,
            plan=plan,
            results=results,
            summaries=summaries,
            running=running,
        )
        try:
            write_run_page(run)
        except OSError as error:
            LOG.warning("The page of this run could not be written: %s", error)
        end_s = time.monotonic()
        self.due_s = end_s + max(_LEAST_PAUSE_S, _PAUSE_RATIO * (end_s - start_s))
