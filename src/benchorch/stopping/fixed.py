"""Stopping rule with a fixed number of processes and calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from benchorch.interfaces.stopping import Stopping
from benchorch.stats import sequential_testing as schedule
from benchorch.units import s_to_ns

# Adding up the series at every block would cost more than short blocks themselves.
GROWTH_RATIO = 1.02


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(Stopping):
    """A fixed number of processes and calls, whatever they show.

    Attributes:
        processes: how many.
        calls: what one process measures at least.
        window_s: seconds of calls that one process measures at least; exceeded by up to 2 %.
        forked: whether processes are forked from one that has imported what they need, where that
            is possible: how a conversion starts and what memory it takes is unknown then.
    """

    processes: int = 5
    calls: int = 50
    window_s: float = 0.0
    forked: bool = False

    def __post_init__(self) -> None:
        if self.processes < 1 or self.calls < 1 or self.window_s < 0:
            raise ValueError(
                "processes and calls must be at least 1 and window_s at least 0, "
                f"got {self.processes}, {self.calls}, {self.window_s}"
            )

    @property
    def forks_all(self) -> bool:
        """Where that was requested."""
        return self.forked

    def enough_calls(self, durations_ns: Sequence[int], calls_per_block: int) -> bool:
        """Whether one process has made its calls and filled its window."""
        blocks = len(durations_ns)
        if blocks * calls_per_block < self.calls:
            return False
        reached_now = (blocks - 1) * calls_per_block < self.calls
        if not reached_now and blocks not in schedule.geometric(1, GROWTH_RATIO):
            return False
        return sum(durations_ns) >= s_to_ns(self.window_s)

    def enough_processes(
        self,
        medians_ns: Sequence[float],
        elapsed_s: float,
        log_ratios: Sequence[float] = (),
        delta_ratio: float = 0.01,
        candidates: int = 1,
    ) -> str | None:
        """``fixed`` once all processes have run."""
        return "fixed" if len(medians_ns) >= self.processes else None
