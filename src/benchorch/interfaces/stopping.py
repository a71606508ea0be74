"""Stopping rules, within a process and over processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchorch.stats.family import Terms


class Stopping(ABC):
    """Decides from what was observed; remembers nothing."""

    @abstractmethod
    def enough_calls(self, durations_ns: Sequence[int], calls_per_block: int) -> bool:
        """Whether one process has enough calls, given all its blocks so far."""

    @abstractmethod
    def enough_processes(
        self,
        medians_ns: Sequence[float],
        elapsed_s: float,
        log_ratios: Sequence[float] = (),
        delta_ratio: float = 0.01,
        candidates: int = 1,
    ) -> str | None:
        """Reason to stop, e.g. ``converged``; None while a further process is needed.

        Args:
            medians_ns: each finished process's primary metric: its steady median per query.
            elapsed_s: seconds spent measuring this trial so far.
            log_ratios: one logarithm of baseline's over candidate's time for each process that
                was paired; empty where nothing is compared.
            delta_ratio: differences up to this share need not be told apart.
            candidates: how many are compared with the same baseline, this one among them.
        """

    @property
    def forks_all(self) -> bool:
        """Whether a trial's first process may be forked as well: its start is no result then."""
        return False

    def table_terms(self, delta_ratio: float) -> Terms | None:
        """The terms on which all candidates of one baseline are judged together.

        None where each trial stops by itself, by `enough_processes`.
        """
        del delta_ratio
        return None

    def planned_looks(self) -> tuple[int, ...]:
        """Counts of pairs at which comparisons are judged before the end; none where none are."""
        return ()
