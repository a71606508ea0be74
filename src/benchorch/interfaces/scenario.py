"""Scenarios: ways of issuing queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from benchorch.domain.measurement import Calibration, Observations
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.stopping import Stopping


class Scenario(ABC):
    """One of MLPerf's ways of issuing queries.

    Class attributes:
        pairing: the narrowest pairing with the baseline: ``alternated`` inside a process,
            ``adjacent`` processes where the scenario itself is what is compared, or ``none``.
    """

    pairing: ClassVar[str] = "alternated"

    @abstractmethod
    def run(
        self,
        calls: Sequence[Callable[[], object]],
        *,
        clock: Clock,
        calibration: Calibration,
        stopping: Stopping,
        items_per_call: float,
        cold_caches: bool = False,
    ) -> Observations:
        """Issue the calls cyclically until `stopping` ends the run; record every block.

        Args:
            calls: the same executable bound to different inputs; at least one.
            cold_caches: flush before every block, outside the timed region.

        Raises:
            MeasureError: of kind ``instrument_fault`` where the clock contradicts itself.
        """
