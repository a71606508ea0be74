"""Noise level of this machine, A, B or C, from one second of spinning.

The thresholds are those of the measurement protocol: work of 1 ms repeated for a second, its 99th
percentile over its median, and the time that a hypervisor took away.
"""

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter_ns

from benchorch.host.interference import steal_ratio, usage
from benchorch.host.pinning import pinned
from benchorch.host.reference_workload import square
from benchorch.units import NS_PER_MS, NS_PER_S, ns_to_s

A_RATIO = 1.02
B_RATIO = 1.10
A_STEAL_RATIO = 0.005

_QUANTUM_NS = NS_PER_MS
_LEAST_QUANTA = 100
_GROUP = 25  # quanta that are together as long as the reference workload
_DRIFT_RATIOS = {"A": 0.0, "B": 0.05, "C": 0.10}
_WIDENING = 3.0
_WIDEST_RATIO = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """Noise level: the trust that absolute times of this machine deserve.

    Attributes:
        letter: ``A`` quiet; ``B`` usable; ``C`` only for interleaved comparisons.
        p99_over_p50: of a millisecond of fixed work.
        steal_ratio: share of the wanted processor time that the hypervisor gave to other guests;
            None where the system does not report it.
        level_spread_ratio: robust standard deviation of the speed from one 25 ms to the next.
        reasons: why it is not better; empty for an A.
        elapsed_s: what looking took.
    """

    letter: str
    p99_over_p50: float
    steal_ratio: float | None
    level_spread_ratio: float
    reasons: tuple[str, ...]
    elapsed_s: float

    def tolerance_ratio(self, asked_ratio: float) -> float:
        """Tolerance of this machine's reference workload; never below the requested one.

        An A is held to that. A B gets at least 5 %, a C 10 %: such machines drift by as much from
        one process to the next, and on a C refusing everything beyond 2 % left models' medians
        spread no less than refusing everything beyond 10 %. Where the speed already changes
        within a second, three of its standard deviations; but never so much that a machine at two
        thirds of its speed would pass, which is what a neighbour on the same core leaves.
        """
        spread = min(_WIDENING * self.level_spread_ratio, _WIDEST_RATIO)
        return max(asked_ratio, _DRIFT_RATIOS[self.letter], spread)


@functools.cache
def grade() -> Grade:
    """The grade of this machine, measured once per process in a second."""
    with pinned(1):
        before, started_ns = usage(), perf_counter_ns()
        quanta_ns = _spin()
        elapsed_s = ns_to_s(perf_counter_ns() - started_ns)
        return judge(quanta_ns, steal_ratio(before, usage()), elapsed_s)


def judge(quanta_ns: Sequence[int], steal: float | None, elapsed_s: float = 0.0) -> Grade:
    """The grade of a machine from the durations of equal pieces of work.

    Args:
        quanta_ns: at least 100 of them, in order of time.
        steal: share of the wanted time that was stolen; None where unknown.
    """
    ordered = sorted(quanta_ns)
    ratio = ordered[math.ceil(0.99 * len(ordered)) - 1] / statistics.median(ordered)
    uneven = f"1 ms of work takes {ratio:.2f} times its median in one of a hundred cases"
    stolen = f"the hypervisor took {steal or 0:.1%} of the time that was wanted"
    reasons = [uneven] * (ratio > A_RATIO) + [stolen] * ((steal or 0) >= A_STEAL_RATIO)
    letter = "C" if ratio > B_RATIO else "B" if reasons else "A"
    return Grade(
        letter=letter,
        p99_over_p50=ratio,
        steal_ratio=steal,
        level_spread_ratio=_level_spread(quanta_ns),
        reasons=tuple(reasons),
        elapsed_s=elapsed_s,
    )


def _spin() -> list[int]:
    """Durations of equal pieces of work of about 1 ms, for a second."""
    turns = range(max(1, round(_QUANTUM_NS / min(_timed(range(1)) for _ in range(20)))))
    ends_ns = perf_counter_ns() + NS_PER_S
    quanta: list[int] = []
    while len(quanta) < _LEAST_QUANTA or perf_counter_ns() < ends_ns:
        quanta.append(_timed(turns))
    return quanta


def _timed(turns: range) -> int:
    started_ns = perf_counter_ns()
    for _ in turns:
        square()
    return perf_counter_ns() - started_ns


def _level_spread(quanta_ns: Sequence[int]) -> float:
    """Spread of the lower quartiles of intervals as long as the reference workload."""
    starts = range(0, len(quanta_ns) - _GROUP + 1, _GROUP)
    levels = [math.log(sorted(quanta_ns[s : s + _GROUP])[_GROUP // 4]) for s in starts]
    middle = statistics.median(levels)
    return 1.4826 * statistics.median(abs(level - middle) for level in levels)
