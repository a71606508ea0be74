"""Scenarios: ways of issuing queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

from benchorch.domain.measurement import Calibration, Observations
from benchorch.domain.tensors import Array
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.stopping import Stopping

Sampling: TypeAlias = "Callable[[Array, int], Array]"
"""The next token of each sequence, shape (batch_size,), int64: of the logits, shape (batch_size,
vocabulary), and the token's number, from 0."""


def likeliest(logits: Array, _number: int) -> Array:
    """The greedy choice, which needs no score but the largest."""
    chosen: Array = logits.argmax(axis=-1)
    return chosen


class Scenario(ABC):
    """MLPerf scenario: a way of issuing queries.

    Class attributes:
        pairing: the narrowest pairing with the baseline: ``alternated`` inside a process,
            ``adjacent`` processes where the scenario itself is what is compared, or ``none``.
        several_rates: whether it offers several rates, which follow from how fast the calls are:
            times of its queries are not of a load that another version has, too.
    """

    pairing: ClassVar[str] = "alternated"
    several_rates: ClassVar[bool] = False

    @property
    def sampling(self) -> Sampling | None:
        """How a call that generates chooses tokens; None where calls are the model's own."""
        return None

    @property
    def calls_at_once(self) -> int:
        """How many calls may run side by side; each needs one that is bound for itself."""
        return 1

    @property
    def schedules_s(self) -> float:
        """Longest that its schedules may take: a process may take so much beside its time limit."""
        return 0.0

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
            calls: the same executable bound to different inputs; at least one, and `calls_at_once`.
            cold_caches: flush before every block, outside the timed region.

        Raises:
            MeasureError: of kind ``instrument_fault`` where the clock contradicts itself.
        """
