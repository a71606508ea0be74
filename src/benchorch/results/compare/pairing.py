"""The values by which two trials are compared: pairs, ratios to a common baseline, or unpaired.

Unpaired, each process contributes one value. A metric without a value per process, such as a p99 of
few calls, is compared by the two sides' own intervals.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from benchorch.domain.estimate import Comparison, Estimate
from benchorch.results.compare import metric_kinds
from benchorch.results.compare.matching import Match
from benchorch.results.compare.ratio_interval import ratio_interval
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.stats.pairs import SEQUENTIAL, Pair
from benchorch.stats.quantiles import ALPHA, LEVEL_RATIO
from benchorch.stats.ratio_test import DELTA_RATIO, INCONCLUSIVE, compare, compare_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """B's and A's times, ready to be compared.

    Attributes:
        design: ``alternated``, ``adjacent``, either of them ``via baseline``, or ``sequential``.
        pairs: B as the candidate and A as its baseline; empty where they are not paired.
        b, a: one value a process where there are no pairs; each over its own baseline's where
            both are paired with the same one.
        intervals: B's and A's own, where single processes have no value.
        drift_ratio: by how much the machine may have changed between the two.
    """

    design: str
    pairs: tuple[Pair, ...] = ()
    b: tuple[float, ...] = ()
    a: tuple[float, ...] = ()
    intervals: tuple[Estimate, Estimate] | None = None
    drift_ratio: float = 0.0

    def compare(self, *, delta_ratio: float, alpha: float) -> Comparison | None:
        """B as the candidate and A as its baseline; None where a value is not positive."""
        if self.pairs:
            return compare_pairs(self.pairs, self.design, delta_ratio=delta_ratio, alpha=alpha)
        if self.intervals:
            return self._by_intervals(*self.intervals, delta_ratio=delta_ratio, alpha=alpha)
        found = compare(
            self.b, self.a, delta_ratio=delta_ratio, alpha=alpha, drift_ratio=self.drift_ratio
        )
        return None if found is None else replace(found, design=self.design)

    def _by_intervals(
        self, b: Estimate, a: Estimate, *, delta_ratio: float, alpha: float
    ) -> Comparison | None:
        """A's value over B's, as in `compare`."""
        ends = ratio_interval(a, b, alpha=alpha)
        if ends is None:
            return None
        drift, delta = math.log1p(self.drift_ratio), math.log1p(delta_ratio)
        low, high = ends[0] - drift, ends[1] + drift
        within = -delta < low and high < delta
        verdict = "faster" if low > 0 else "slower" if high < 0 else "equivalent" if within else ""
        return Comparison(
            ratio=Estimate(
                value=a.value / b.value,
                low=math.exp(low),
                high=math.exp(high),
                level_ratio=LEVEL_RATIO,
                n=min(a.n, b.n),
                unit="ratio",
                method="ratio of the two values; from their intervals",
            ),
            verdict=verdict or INCONCLUSIVE,
            reason="" if verdict else "the interval includes no difference and one that matters",
            design=self.design,
        )


def paired_samples(match: Match) -> Samples | None:
    """Pairs of the two sides, or of both with one baseline, in one session; None without."""
    a, b = match.a, match.b
    if a.plan_id != b.plan_id:
        return None
    if _is_paired_with(b, a):
        return Samples(design=b.evidence.design, pairs=_pairs(b))
    if _is_paired_with(a, b):
        swapped = tuple(Pair(pair.theirs, pair.ours) for pair in _pairs(a))
        return Samples(design=a.evidence.design, pairs=swapped)
    shared = a.trial.baseline_id is not None and a.trial.baseline_id == b.trial.baseline_id
    if not (shared and a.evidence.pairs_ns and b.evidence.pairs_ns):
        return None
    relative_b, relative_a = (
        tuple(pair.ours / pair.theirs for pair in _pairs(side)) for side in (b, a)
    )
    return Samples(design=f"{b.evidence.design} via baseline", b=relative_b, a=relative_a)


def speedup_samples(match: Match) -> Samples | None:
    """Each side's gain over its own baseline, in its own session; None without pairs."""
    b, a = (tuple(math.exp(pair.log_ratio) for pair in _pairs(s)) for s in (match.b, match.a))
    design = f"{match.b.evidence.design} via baseline"
    return Samples(design=design, b=b, a=a) if a and b else None


def unpaired_samples(match: Match, metric: str, drift_ratio: float) -> Samples | None:
    """Values of the processes, else the two intervals; None where a side has neither."""
    b, a = (side.evidence.values.get(metric, ()) for side in (match.b, match.a))
    if a and b:
        return Samples(design=SEQUENTIAL, b=b, a=a, drift_ratio=drift_ratio)
    b_own, a_own = (
        side.summary and side.summary.metrics.get(metric) for side in (match.b, match.a)
    )
    if b_own and a_own and None not in (b_own.low, a_own.low):
        return Samples(design=SEQUENTIAL, intervals=(b_own, a_own), drift_ratio=drift_ratio)
    return None


def drift_ratio(match: Match, across: Collection[str]) -> float | None:
    """The slowest over the fastest reference workload of both sides, less 1; None without one.

    Where machines are compared, only what each drifted by itself counts.
    """
    sides = [reference_ns(side) for side in (match.a, match.b)]
    if not all(sides):
        return None
    if "hardware" in across:
        return math.prod(max(times) / min(times) for times in sides) - 1
    times = [time for side in sides for time in side]
    return max(times) / min(times) - 1


def reference_ns(stored: StoredTrial) -> list[float]:
    """Times of the reference workloads around the processes that count."""
    return [time for times in stored.evidence.canaries_ns for time in times]


def delta_ratio(match: Match) -> float:
    """The larger of the two equivalence margins."""
    results = [side.result for side in (match.a, match.b)]
    return max(DELTA_RATIO if result is None else result.delta_ratio for result in results)


def alpha(match: Match, family: int) -> float:
    """The error rate of one of `family` comparisons that are read together.

    Bonferroni's, after the interim analyses of each side.
    """
    return _alpha_left(match) / family


def after_interim_analyses(match: Match, p_value: float | None) -> float | None:
    """A p-value scaled so that 5 % stays 5 % in spite of each side's interim analyses."""
    return None if p_value is None else min(1.0, p_value * ALPHA / _alpha_left(match))


def _alpha_left(match: Match) -> float:
    spent = [ALPHA if s.result is None else s.result.stop_alpha for s in (match.a, match.b)]
    return min(ALPHA, *spent)


def is_same(match: Match) -> bool:
    """Whether both sides are the same observations."""
    a, b = match.a, match.b
    started = [None if side.result is None else side.result.started_at for side in (a, b)]
    same = a.plan_id == b.plan_id and a.trial.trial_id == b.trial.trial_id
    return same and started[0] == started[1]


def is_exact(match: Match, metric: str) -> bool:
    """Whether there is nothing to estimate."""
    return metric in metric_kinds.EXACT or is_same(match)


def _is_paired_with(stored: StoredTrial, other: StoredTrial) -> bool:
    """Whether the processes of one are paired with the other as their baseline."""
    is_baseline = stored.trial.baseline_id == other.trial.trial_id
    return is_baseline and bool(stored.evidence.pairs_ns)


def _pairs(stored: StoredTrial) -> tuple[Pair, ...]:
    return tuple(Pair(*pair) for pair in stored.evidence.pairs_ns)
