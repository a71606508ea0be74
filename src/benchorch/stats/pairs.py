"""Paired comparison with the baseline: one log ratio a process."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from benchorch.domain.measurement import Observations, Paired, ProcessRecord
from benchorch.stats.between_processes import median_query_ns, primary_ns
from benchorch.stats.mean_of_processes import mean
from benchorch.stats.sequential_testing import USUAL_LOOKS
from benchorch.stats.steady_state import steady_from

ALTERNATED, ADJACENT, SEQUENTIAL = "alternated", "adjacent", "sequential"

PARTS = 10

INTERFERENCE_LOOKS = USUAL_LOOKS
"""Numbers of pairs at which a trial is tested for interference by interleaving."""

# Of a finding against a comparison that is looked for once: that the ratio moves.
_ALPHA = 0.01
# Of each look at each side: `look_alpha(INTERFERENCE_LOOKS, 0.005)`.
_INTERFERENCE_ALPHA = 0.00099


class Pair(NamedTuple):
    """Both sides' median time per query, in nanoseconds; each a positive number."""

    ours: float
    theirs: float

    @property
    def log_ratio(self) -> float:
        """The logarithm of the baseline's over the candidate's time: above 0 where it is faster."""
        return math.log(self.theirs) - math.log(self.ours)


def design_of(processes: Sequence[ProcessRecord]) -> str:
    """How these were paired: ``alternated``, ``adjacent``, or ``sequential`` if not at all.

    Where both occur it is ``adjacent``: a trial falls back to it when interleaving interferes.
    """
    designs = {process.paired.design for process in processes if process.paired}
    ordered = (ADJACENT, ALTERNATED)
    return next((design for design in ordered if design in designs), SEQUENTIAL)


def pairs(processes: Sequence[ProcessRecord]) -> list[Pair]:
    """The pairs of the trial's design, in the order of its processes."""
    found = (_pair(process) for process in compared(processes))
    return [pair for pair in found if pair is not None]


def log_ratio(process: ProcessRecord) -> float | None:
    """The logarithm of baseline's over candidate's time; None where the process was not paired."""
    pair = _pair(process)
    return None if pair is None else pair.log_ratio


def log_ratios(processes: Sequence[ProcessRecord]) -> list[float]:
    """Log ratios of the trial's design, one per pair: the basis of a verdict."""
    return [pair.log_ratio for pair in pairs(processes)]


def halves(processes: Sequence[ProcessRecord]) -> tuple[list[Pair], list[Pair]]:
    """Pairs of the first and of the second half of each side's blocks.

    A process whose sides have fewer than two blocks is left out of both.
    """
    found = [(_pair(process, 0), _pair(process, 1)) for process in compared(processes)]
    whole = [(first, second) for first, second in found if first and second]
    return [first for first, _ in whole], [second for _, second in whole]


def moves(processes: Sequence[ProcessRecord], delta_ratio: float) -> bool:
    """Whether the ratio itself still moves while the two are compared.

    A machine that drifts takes both sides with it, and their ratio stays; a side that warms up,
    or slows down for ever, takes the ratio along in every process. Estimator: paired t, at 1 %,
    on the second half's log ratio less the first's; False below 3 pairs, and for a movement that
    does not exceed `delta_ratio`.
    """
    first, second = halves(processes)
    changes = [b.log_ratio - a.log_ratio for a, b in zip(first, second, strict=True)]
    low, high = _interval(changes)
    centre = math.fsum(changes) / max(len(changes), 1)
    return (low > 0 or high < 0) and abs(centre) > math.log1p(delta_ratio)


def extremes(processes: Sequence[ProcessRecord]) -> tuple[list[Pair], list[Pair]]:
    """Pairs of the candidate's slowest and the baseline's fastest level, and the reverse.

    A side that settled has one level, its median. Of any other, the smallest and the largest
    median of `PARTS` consecutive parts of its blocks: how far it wandered while it was watched.
    Both lists are empty where every side of these adjacent processes settled.
    """
    whole = [process for process in compared(processes) if _pair(process)]
    found = [(_candidate(process), _baseline(process)) for process in whole]
    if all(side.settled for sides in found for side in sides):
        return [], []
    levels = [(_levels_ns(ours), _levels_ns(theirs)) for ours, theirs in found]
    return (
        [Pair(ours[1], theirs[0]) for ours, theirs in levels],
        [Pair(ours[0], theirs[1]) for ours, theirs in levels],
    )


def interferes(processes: Sequence[ProcessRecord], delta_ratio: float) -> str | None:
    """Whose own speed interleaving changes: ``baseline``, ``candidate``, or None for neither.

    Estimator: for each side a paired t on the logarithm of its median while interleaved over that
    of the same process while the other was idle (of the blocks before all slices and of those
    after them, the geometric mean of both medians); found where the whole interval lies beyond
    `delta_ratio`. None below 3 processes, and for what is faster or slower by less: neither side
    is then known to disturb the other, which is not to say that it does not.

    The error rate is that of `INTERFERENCE_LOOKS` interim analyses of two sides, 1 % for all
    together where `delta_ratio` is 0, and less otherwise.
    """
    found = _changes(processes).items()
    return next((name for name, changes in found if is_changed(changes, delta_ratio)), None)


def is_changed(changes: Sequence[float], delta_ratio: float) -> bool:
    """Whether these logarithms of a side's times, together over alone, show that it changes."""
    delta = math.log1p(delta_ratio)
    low, high = _interval(changes, _INTERFERENCE_ALPHA)
    return low > delta or high < -delta


def interference_at_look(processes: Sequence[ProcessRecord], delta_ratio: float) -> str | None:
    """`interferes` while pairs are still added: tested at `INTERFERENCE_LOOKS` counts only."""
    count = len(compared(processes))
    return interferes(processes, delta_ratio) if count in INTERFERENCE_LOOKS else None


def _changes(processes: Sequence[ProcessRecord]) -> dict[str, list[float]]:
    """Each side's logarithm of its median while interleaved over that while the other was idle."""
    changes: dict[str, list[float]] = {"candidate": [], "baseline": []}
    for process in processes:
        paired = process.paired
        if paired is None or paired.ours is None:
            continue
        together = {
            "candidate": median_query_ns(paired.ours, paired.ours_from),
            "baseline": median_query_ns(paired.theirs, paired.theirs_from),
        }
        for name, alone_ns in _alone_ns(process, paired).items():
            if together[name] > 0 and alone_ns > 0:
                changes[name].append(math.log(together[name]) - math.log(alone_ns))
    return changes


def _alone_ns(process: ProcessRecord, paired: Paired) -> dict[str, float]:
    """Each side's median while the other was idle, where it was measured."""
    sides = {"candidate": paired.ours_alone, "baseline": paired.theirs_alone}
    found = {name: _middle_ns(alone) for name, alone in sides.items() if alone is not None}
    # Older records have the candidate before the baseline was loaded; what never was steady
    # there changes its speed by itself.
    if not found and process.steady_from is not None:
        return {"candidate": primary_ns(process)}
    return found


def _middle_ns(alone: Observations) -> float:
    """Between the medians of its halves, which lie before and after all slices."""
    half = len(alone.durations_ns) // 2
    return math.sqrt(median_query_ns(alone, 0, half) * median_query_ns(alone, half))


def compared(processes: Sequence[ProcessRecord]) -> list[ProcessRecord]:
    """Processes that were paired in the trial's design."""
    design = design_of(processes)
    return [p for p in processes if p.paired is not None and p.paired.design == design]


class _Side(NamedTuple):
    """The blocks of one side that count, from `start` on."""

    observations: Observations
    start: int
    settled: bool = True


def _candidate(process: ProcessRecord) -> _Side:
    paired = process.paired
    if paired is not None and paired.ours is not None:
        return _Side(paired.ours, paired.ours_from)
    settled = process.steady_from is not None
    return _Side(process.observations, process.steady_from or 0, settled)


def _baseline(process: ProcessRecord) -> _Side:
    paired = process.paired
    assert paired is not None  # only paired processes are looked at
    settled = paired.theirs_from > 0 or paired.ours is not None
    # A baseline that was steady from its first block on looks like one that never was.
    settled = settled or steady_from(paired.theirs.durations_ns) is not None
    return _Side(paired.theirs, paired.theirs_from, settled)


def _pair(process: ProcessRecord, half: int | None = None) -> Pair | None:
    """Medians of both sides, over one half of each side's blocks or over all."""
    paired = process.paired
    if paired is None:
        return None
    ours = _median_ns(_candidate(process), half)
    theirs = _median_ns(_Side(paired.theirs, paired.theirs_from), half)
    # Written so that a NaN, of a side without blocks, is no pair either.
    return Pair(ours, theirs) if ours > 0 and theirs > 0 else None


def _median_ns(side: _Side, half: int | None) -> float:
    start, end = side.start, len(side.observations.durations_ns)
    middle = (start + end) // 2
    if half == 0:
        end = middle
    elif half == 1:
        start = middle
    return median_query_ns(side.observations, start, end)


def _levels_ns(side: _Side) -> tuple[float, float]:
    """The fastest and the slowest level of a side."""
    start, end = side.start, len(side.observations.durations_ns)
    parts = 1 if side.settled else min(PARTS, end - start)
    cuts = [start + (end - start) * part // parts for part in range(parts + 1)]
    medians = [median_query_ns(side.observations, *ends) for ends in itertools.pairwise(cuts)]
    return min(medians), max(medians)


def _interval(values: Sequence[float], alpha: float = _ALPHA) -> tuple[float, float]:
    """Student's t about the mean; without ends below three values."""
    found = mean(values, of="changes", unit="", alpha=alpha) if len(values) > 2 else None
    if found is None or found.low is None or found.high is None:
        return -math.inf, math.inf
    return found.low, found.high
