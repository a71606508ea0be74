"""When enough has been seen, within a process and over processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence


class Stopping(ABC):
    """Decides from what was observed; remembers nothing."""

    @abstractmethod
    def enough_calls(self, durations_ns: Sequence[int], calls_per_block: int) -> bool:
        """Whether one process has seen enough, given all its blocks so far."""

    @abstractmethod
    def enough_processes(self, medians_ns: Sequence[float], elapsed_s: float) -> str | None:
        """Why no further process is needed, e.g. ``converged``; None while one is.

        Args:
            medians_ns: each finished process's steady median per call.
            elapsed_s: seconds spent measuring this trial so far.
        """
