"""How long one process measures: until its calls are steady, within bounds that follow a call."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchorch.stats.sequential_testing import geometric
from benchorch.stats.steady_state import steady_from
from benchorch.units import s_to_ns

GROWTH_RATIO = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessWindow:
    """Bounds of what one process measures.

    Attributes:
        min_s, min_calls: what it measures at least, unless `max_s` comes first.
        max_s: after which it stops even without a steady state, once `least_blocks` are in.
        least_blocks: fewer are never enough.
    """

    min_s: float
    min_calls: int
    max_s: float
    least_blocks: int

    def is_enough(self, durations_ns: Sequence[int], calls_per_block: int) -> bool:
        """Whether these blocks are enough, tested at geometric counts of blocks only."""
        blocks = len(durations_ns)
        if blocks not in geometric(self.least_blocks, GROWTH_RATIO):
            return False
        elapsed_ns = sum(durations_ns)
        if elapsed_ns >= s_to_ns(self.max_s):
            return True
        early = elapsed_ns < s_to_ns(self.min_s)
        if early or blocks * calls_per_block < self.min_calls:
            return False
        return steady_from(durations_ns) is not None
