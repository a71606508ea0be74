"""Stopping rule by the precision of intervals, within a budget."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from benchorch.errors import check_options
from benchorch.interfaces.stopping import Stopping
from benchorch.stats import sequential_testing as schedule
from benchorch.stats.between_processes import half_width_ratio
from benchorch.stats.process_window import ProcessWindow

LEAST_CALLS = 10


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Precision(Stopping):
    """Adds processes until the intervals of median and comparison are narrow enough.

    Within a process: at least `min_window_s` and `min_calls`, then on until a steady state shows.
    Calls so slow that `max_window_s` comes first are given that long and no longer, but never
    fewer than 10 calls: with slow calls another process teaches more than another call. Looks
    are taken at geometric counts of blocks only.

    Over processes: at `looks` alone, each at an error rate so small that all of them together err
    in one of twenty cases. Enough is where the median's interval at that rate is within the target
    (such an interval exists from 8 processes on at 1.15 %) and, for a trial paired with its
    baseline, at least `min_pairs` pairs give the verdict that its table needs: the more
    candidates, the narrower the interval must be. Once `budget_s` is
    spent no process is added beyond `min_processes`.

    Attributes:
        target_ratio: the interval's half-width that is good enough, as a share of the median.
        min_window_s, min_calls: what one process measures at least.
        max_window_s: after which one process stops even without a steady state.
        looks: counts of processes at which to judge.
        min_pairs: no verdict is awaited on fewer.
        min_processes: started even where the budget is spent before.
        max_processes: never exceeded.
        budget_s: seconds of measuring, process starts included.
    """

    target_ratio: float = 0.01
    min_window_s: float = 0.5
    min_calls: int = 50
    max_window_s: float = 5.0
    looks: tuple[int, ...] = (5, 8, 12, 18, 27, 40)
    min_pairs: int = 8
    min_processes: int = 3
    max_processes: int = 40
    budget_s: float = 60.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "looks", tuple(self.looks))
        check_options(
            self,
            {
                "target_ratio: between 0 and 1": 0 < self.target_ratio < 1,
                "min_window_s: above 0, at most max_window_s": (
                    0 < self.min_window_s <= self.max_window_s
                ),
                "min_calls: at least 1": self.min_calls >= 1,
                "looks: increasing counts from 2 on": (
                    list(self.looks) == sorted(set(self.looks)) and min(self.looks, default=0) >= 2
                ),
                "min_pairs: at least 3": self.min_pairs >= schedule.LEAST_PAIRS,
                "min_processes: at least 1, at most max_processes": (
                    1 <= self.min_processes <= self.max_processes
                ),
                "budget_s: above 0": self.budget_s > 0,
            },
        )

    def enough_calls(self, durations_ns: Sequence[int], calls_per_block: int) -> bool:
        """Whether one process has enough calls, tested at geometric counts only."""
        return ProcessWindow(
            min_s=self.min_window_s,
            min_calls=self.min_calls,
            max_s=self.max_window_s,
            least_blocks=LEAST_CALLS,
        ).is_enough(durations_ns, calls_per_block)

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
        known = count in self.looks and self._precise(medians_ns)
        if known and self._decided(log_ratios, delta_ratio, candidates):
            return schedule.CONVERGED
        spent = elapsed_s >= self.budget_s and count >= self.min_processes
        return "budget_exhausted" if spent or count >= self.max_processes else None

    def planned_looks(self) -> tuple[int, ...]:
        """Interim analyses of the rule."""
        return self.looks

    def _precise(self, medians_ns: Sequence[float]) -> bool:
        half_width = half_width_ratio(medians_ns, schedule.look_alpha(self.looks))
        return half_width is not None and half_width <= self.target_ratio

    def _decided(self, log_ratios: Sequence[float], delta_ratio: float, candidates: int) -> bool:
        """Whether the table will have a verdict for these, were nothing else to change."""
        if not log_ratios:
            return True
        from benchorch.stats.family import UNDECIDED, Candidate, Terms, judged  # no use in a plan

        terms = Terms(delta_ratio=delta_ratio, looks=self.looks, planned=candidates)
        alone = Candidate(name="alone", log_ratios=tuple(log_ratios))
        verdict = judged([alone], terms).standings[0].verdict
        return len(log_ratios) >= self.min_pairs and verdict != UNDECIDED
