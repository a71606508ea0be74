"""Stopping rule of a table: until every verdict and the winner are decided."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from benchorch.errors import check_options
from benchorch.interfaces.stopping import Stopping
from benchorch.stats.family import UNDECIDED, Candidate, Terms, judged
from benchorch.stats.process_window import GROWTH_RATIO, ProcessWindow
from benchorch.stats.sequential_testing import CONVERGED, geometric

LEAST_BLOCKS = 6
"""Fewer show no steady state."""

FEWEST_BLOCKS = 3
"""Minimum for calls so slow that `LEAST_BLOCKS` take four times `max_window_s`."""

_TESTED = geometric(LEAST_BLOCKS, GROWTH_RATIO) | geometric(FEWEST_BLOCKS, GROWTH_RATIO)
"""Counts of blocks at which a process may end."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Decide(Stopping):
    """Adds processes where they decide something.

    All candidates of one baseline are judged together, after each round (`table_terms`): a
    candidate gets further processes while its verdict against the baseline is open, or whether it
    is the best. Two that differ by less than the equivalence margin are decided, too. What has no
    pairs (a baseline, and trials under load) gets `unpaired_processes`.

    Where an executor runs trials one after the other, a trial knows nothing of its table and stops
    once its own verdict is decided, or at `budget_s`.

    Attributes:
        min_window_s, min_calls: what one process measures at least.
        max_window_s: after which one process stops even without a steady state.
        looks: counts of pairs at which a candidate is judged.
        unpaired_processes: of a trial that is compared with nothing.
        max_processes: never exceeded.
        budget_s: seconds of measuring where trials run one after the other.
    """

    min_window_s: float = 0.3
    min_calls: int = 12
    max_window_s: float = 1.5
    looks: tuple[int, ...] = (5, 8, 12, 18, 27, 40)
    unpaired_processes: int = 3
    max_processes: int = 40
    budget_s: float = 60.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "looks", tuple(self.looks))
        check_options(
            self,
            {
                "min_window_s: above 0, at most max_window_s": (
                    0 < self.min_window_s <= self.max_window_s
                ),
                "min_calls: at least 1": self.min_calls >= 1,
                "looks: increasing counts from 2 on": (
                    list(self.looks) == sorted(set(self.looks)) and min(self.looks, default=0) >= 2
                ),
                "unpaired_processes: at least 1, at most max_processes": (
                    1 <= self.unpaired_processes <= self.max_processes
                ),
                "budget_s: above 0": self.budget_s > 0,
            },
        )

    def enough_calls(self, durations_ns: Sequence[int], calls_per_block: int) -> bool:
        """Whether one process has enough calls, tested at geometric counts only."""
        if len(durations_ns) not in _TESTED:  # asked after each of a hundred thousand blocks
            return False
        usual = self._window(1.0, LEAST_BLOCKS).is_enough(durations_ns, calls_per_block)
        return usual or self._window(4.0, FEWEST_BLOCKS).is_enough(durations_ns, calls_per_block)

    def enough_processes(
        self,
        medians_ns: Sequence[float],
        elapsed_s: float,
        log_ratios: Sequence[float] = (),
        delta_ratio: float = 0.01,
        candidates: int = 1,
    ) -> str | None:
        """``converged``, ``budget_exhausted``, or None while a further process is needed."""
        count = len(medians_ns)
        decided = self._is_decided(log_ratios, delta_ratio, candidates)
        if count >= self.unpaired_processes and decided:
            return CONVERGED
        spent = elapsed_s >= self.budget_s and count >= self.unpaired_processes
        return "budget_exhausted" if spent or count >= self.max_processes else None

    def planned_looks(self) -> tuple[int, ...]:
        """Interim analyses of the rule."""
        return self.looks

    def table_terms(self, delta_ratio: float) -> Terms:
        """The terms on which all candidates of one baseline are judged together."""
        return Terms(delta_ratio=delta_ratio, looks=self.looks, most=self.max_processes)

    def _window(self, longer: float, least_blocks: int) -> ProcessWindow:
        return ProcessWindow(
            min_s=self.min_window_s,
            min_calls=self.min_calls,
            max_s=longer * self.max_window_s,
            least_blocks=least_blocks,
        )

    def _is_decided(self, log_ratios: Sequence[float], delta_ratio: float, candidates: int) -> bool:
        if not log_ratios:
            return True
        alone = Candidate(name="alone", log_ratios=tuple(log_ratios))
        terms = replace(self.table_terms(delta_ratio), planned=candidates)
        found = judged([alone], terms, interim=True)
        return found.standings[0].verdict != UNDECIDED
