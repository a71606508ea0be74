"""The page of a run that goes on: written anew between trials, seldom enough to cost nothing."""

import logging
import time
from dataclasses import dataclass

from benchorch.results.compare.stored_run import RunResults

_LEAST_PAUSE_S = 10.0
_PAUSE_RATIO = 30.0
LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class LivePage:
    """The page in a run's folder.

    Attributes:
        due_s: the moment of the monotonic clock from which on it may be written again.
    """

    due_s: float = 0.0

    def is_due(self) -> bool:
        """Whether the last one is old: ten seconds, and thirty times what writing it took."""
        return time.monotonic() >= self.due_s

    def write(self, run: RunResults) -> None:
        """Write it; a page that cannot be written ends no run."""
        from benchorch.results.report.run_page import write_run_page

        start_s = time.monotonic()
        try:
            write_run_page(run)
        except OSError as error:
            LOG.warning("The page of this run could not be written: %s", error)
        end_s = time.monotonic()
        self.due_s = end_s + max(_LEAST_PAUSE_S, _PAUSE_RATIO * (end_s - start_s))
